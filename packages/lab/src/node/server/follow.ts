import { closeSync, openSync, readSync, watch } from "node:fs";

/** Unit: bytes. */
const CHUNK = 64 * 1024;

/** What a file holds from `offset` on, as it grows, until `signal` aborts and all of it was given. */
export async function* followFile(path: string, offset: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  let wake: () => void = () => {};
  let isChanged = true;
  const notify = (): void => {
    isChanged = true;
    wake();
  };
  // Watching begins before reading: a change between the two is not missed.
  using watcher = disposable(watch(path, { persistent: false }, notify));
  watcher.on("error", notify);
  const fd = openSync(path, "r");
  signal.addEventListener("abort", notify);
  try {
    let at = offset;
    while (isChanged) {
      isChanged = false;
      for (let chunk = readAt(fd, at); chunk.length > 0; chunk = readAt(fd, at)) {
        at += chunk.length;
        yield chunk;
      }
      if (isChanged) continue;
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (isChanged) resolve();
      });
    }
  } finally {
    signal.removeEventListener("abort", notify);
    closeSync(fd);
  }
}

/** All that a file holds from `offset` on. */
export function* readFrom(path: string, offset: number): Generator<Buffer> {
  const fd = openSync(path, "r");
  try {
    let at = offset;
    for (let chunk = readAt(fd, at); chunk.length > 0; chunk = readAt(fd, at)) {
      at += chunk.length;
      yield chunk;
    }
  } finally {
    closeSync(fd);
  }
}

function readAt(fd: number, offset: number): Buffer {
  const buffer = Buffer.alloc(CHUNK);
  return buffer.subarray(0, readSync(fd, buffer, 0, CHUNK, offset));
}

function disposable<T extends { close(): void }>(watcher: T): T & Disposable {
  return Object.assign(watcher, { [Symbol.dispose]: () => watcher.close() });
}
