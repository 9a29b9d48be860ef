import { appendFileSync, statSync, watch } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@fairlead/base/clock.ts";
import { isTooLong, LOG_TIMES_FILE, MAX_LOG_BYTES, trimLog } from "./log-bound.ts";

/**
 * When the parts of a container's log were written.
 *
 * The container writes its log directly; the kubelet only watches the file grow, and notes from
 * which offset on what it sees is new. So a line's time is when the kubelet saw it: some milliseconds late, and for what
 * was written while no kubelet ran, the time at which the next one began.
 */
export interface TimeMark {
  /** Unit: bytes. */
  readonly offset: number;
  /** Unit: milliseconds since the Unix epoch. */
  readonly atMs: number;
}

/** Bytes that come within this time of a mark count to it, which bounds the marks of a chatty program. Unit: milliseconds. */
const RESOLUTION_MS = 20;

/** How often a log is looked at that cannot be watched, because the machine has no inotify instance left. Unit: milliseconds. */
const LOOK_MS = 1000;

/** Notes the growth of the log of one container until disposed, and keeps it within its bound. */
export function watchLogTimes(folder: string, clock: Clock, watchFile = watch): Disposable {
  const log = join(folder, "log");
  let size = sizeMarked(folder);
  let lastMs = -Infinity;
  let isTrimming = false;
  const trim = (): void => {
    if (isTrimming || !isTooLong(folder, size)) return;
    isTrimming = true;
    // A file system that cannot punch holes keeps the whole log; a log that was just removed needs nothing.
    const isTrimmed = trimLog(folder, size).then(
      () => true,
      () => false,
    );
    void isTrimmed.then((isDone) => {
      isTrimming = false;
      // What was written in the meantime may have been the last, of which no other event reports.
      return isDone ? trim() : undefined;
    });
  };
  const note = (): void => {
    const grown = sizeOf(log);
    if (grown <= size) return;
    const nowMs = clock.now();
    if (nowMs - lastMs >= RESOLUTION_MS) {
      try {
        appendFileSync(join(folder, LOG_TIMES_FILE), `${size} ${nowMs}\n`);
      } catch {
        // The container was removed just now.
        return;
      }
      lastMs = nowMs;
    }
    size = grown;
    if (size > MAX_LOG_BYTES) trim();
  };
  const stop = follow(log, note, watchFile);
  note();
  return {
    [Symbol.dispose]: () => {
      note();
      stop();
    },
  };
}

/** Calls `note` when the file changes. A container runs although its log cannot be watched. */
function follow(log: string, note: () => void, watchFile: typeof watch): () => void {
  try {
    const watcher = watchFile(log, { persistent: false }, note);
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    const timer = setInterval(note, LOOK_MS).unref();
    return () => clearInterval(timer);
  }
}

export function parseTimes(text: string): readonly TimeMark[] {
  return text.split("\n").flatMap((line) => {
    const [offset, atMs] = line.split(" ").map(Number);
    return offset === undefined || atMs === undefined || Number.isNaN(atMs) ? [] : [{ offset, atMs }];
  });
}

/** The time of the byte at `offset`: that of the last mark at or before it. */
export function timeAt(marks: readonly TimeMark[], offset: number): number {
  let low = 0;
  let high = marks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((marks[middle]?.offset ?? Infinity) <= offset) low = middle + 1;
    else high = middle;
  }
  return marks[Math.max(0, low - 1)]?.atMs ?? 0;
}

/** How much of the log an earlier kubelet has marked is not known exactly; what is new to this one begins here. */
function sizeMarked(folder: string): number {
  return sizeOf(join(folder, LOG_TIMES_FILE)) === 0 ? 0 : sizeOf(join(folder, "log"));
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
