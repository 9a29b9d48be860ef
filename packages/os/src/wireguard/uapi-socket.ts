import { once } from "node:events";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { connect } from "node:net";
import { FleetError } from "@fairlead/base/errors.ts";

/** Longest time between two pieces of an answer. Unit: milliseconds. */
const TIMEOUT_MS = 5000;

/** Longest answer: about 30 000 peers. Unit: bytes. */
const MAX_ANSWER = 16 * 1024 * 1024;

/**
 * Sends one request to the process that serves the device, and returns its answer. Undefined if no process serves it.
 *
 * @throws {FleetError} `TIMED_OUT` when the process hangs, `ABORTED` when `signal` aborts, `WIREGUARD_FAILED` otherwise.
 */
export async function exchange(
  folder: string,
  name: string,
  request: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    return await withPath(folder, name, (path) => talk({ path, name, request, signal }));
  } catch (cause) {
    if (signal.aborted)
      throw new FleetError("ABORTED", "the request to wireguard-go was cancelled", { cause });
    if (cause instanceof FleetError) throw cause;
    throw new FleetError("WIREGUARD_FAILED", `cannot reach wireguard-go of the device ${name}`, {
      cause,
      retriable: true,
    });
  }
}

/**
 * Calls `onEnd` once, when the process that serves the device ends: the kernel closes its connections. Does not keep this
 * process alive. Undefined if no process serves the device.
 */
export function watchProcess(
  folder: string,
  name: string,
  onEnd: () => void,
): Promise<Disposable | undefined> {
  return withPath(folder, name, async (path) => {
    const socket = connect({ path }).unref();
    await once(socket, "connect");
    socket.on("error", () => {});
    socket.once("close", onEnd);
    return {
      [Symbol.dispose]() {
        socket.off("close", onEnd);
        socket.destroy();
      },
    };
  });
}

/** The path of a socket has at most 107 bytes; the one that `use` gets is short wherever the folder is. */
async function withPath<T>(
  folder: string,
  name: string,
  use: (path: string) => Promise<T>,
): Promise<T | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
    return await use(`/proc/self/fd/${handle.fd}/${name}.sock`);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  } finally {
    await handle?.close();
  }
}

interface Talk {
  readonly path: string;
  readonly name: string;
  readonly request: string;
  readonly signal: AbortSignal;
}

function talk({ path, name, request, signal }: Talk): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, signal });
    const pieces: Buffer[] = [];
    let size = 0;
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(hangs(name)));
    socket.on("data", (piece: Buffer) => {
      pieces.push(piece);
      size += piece.length;
      if (size > MAX_ANSWER)
        socket.destroy(new FleetError("WIREGUARD_FAILED", "the answer of wireguard-go is too long"));
      // An answer ends with an empty line; the server would wait for another request.
      else if (endsEmpty(pieces)) socket.end();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(Buffer.concat(pieces).toString("utf8")));
    socket.write(request);
  });
}

function hangs(name: string): FleetError {
  return new FleetError(
    "TIMED_OUT",
    `the wireguard-go process of the device ${name} has not answered for ${TIMEOUT_MS} ms; if it hangs, kill it: it is started again`,
    { retriable: true },
  );
}

function endsEmpty(pieces: readonly Buffer[]): boolean {
  const last = Buffer.concat(pieces.slice(-2)).subarray(-2);
  return last.toString("latin1") === "\n\n";
}

/** No folder, no socket, or a socket whose process has ended. */
/** Without a process, or with one that ended before it had read the request. */
const ABSENT = new Set(["ENOENT", "ENOTDIR", "ECONNREFUSED", "ECONNRESET", "EPIPE"]);

function isAbsent(error: unknown): boolean {
  return Error.isError(error) && "code" in error && ABSENT.has(String(error.code));
}
