import { closeSync, constants, existsSync, openSync, readFileSync, statSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { ReadStream } from "node:tty";
import { messageOf } from "@fairlead/base/errors.ts";
import { type Executed, execInContainer } from "../container/exec.ts";
import type { ContainerView } from "../container/runtime.ts";
import { type Channels, connectProgram, exitStatus, failureStatus, type StreamWish } from "./channels.ts";
import { openTerminal, resizeTerminal, type TerminalSize } from "../container/pty.ts";
import { followFile } from "./follow.ts";

/** Runs a command in a container for a client, and reports its exit status. */
export async function serveExec(
  run: ContainerView,
  command: readonly string[],
  { wish, channels }: { readonly wish: StreamWish; readonly channels: Channels },
): Promise<void> {
  try {
    const code = wish.tty
      ? await execOnTerminal(run, command, channels)
      : await execOnPipes(run, command, channels);
    await channels.finish(exitStatus(code));
  } catch (error) {
    await channels.finish(failureStatus(messageOf(error)));
  }
}

function execOnPipes(run: ContainerView, argv: readonly string[], channels: Channels): Promise<number> {
  const executed = execInContainer(run, { argv });
  // As in other runtimes, the program runs until it writes to its closed streams or the container ends.
  channels.onClose(() => executed.stdin?.destroy());
  return connectProgram(executed, channels);
}

/** The terminal is one of the container's own devpts, so that its programs find it by name. */
async function execOnTerminal(
  run: ContainerView,
  argv: readonly string[],
  channels: Channels,
): Promise<number> {
  const { master, slave } = await openTerminal(`/proc/${run.process?.pid ?? 0}/root/dev/pts`);
  const stream = new ReadStream(master);
  // Reading fails with EIO once the last program has closed its end: that is how a terminal ends.
  stream.on("error", () => stream.destroy());
  try {
    const executed = startOn(slave, run, argv);
    channels.onResize((size) => void (stream.destroyed || resizeTerminal(master, size)));
    // Hangs up: what runs on the terminal gets SIGHUP.
    channels.onClose(() => stream.destroy());
    const drained = new Promise<void>((resolve) => {
      stream.once("close", () => resolve());
      stream.once("end", () => resolve());
    });
    if (channels.stdout === undefined) stream.resume();
    else stream.pipe(channels.stdout, { end: false });
    channels.stdin?.on("data", (chunk: Buffer) => void stream.write(chunk));
    const code = await executed.ended;
    await drained;
    return code;
  } finally {
    stream.destroy();
  }
}

/** The program has the terminal, and this process no longer: also if the kernel refuses the command, such as one that is too long. */
function startOn(terminal: number, run: ContainerView, argv: readonly string[]): Executed {
  try {
    return execInContainer(run, { argv, terminal });
  } finally {
    closeSync(terminal);
  }
}

/** Shows a client what a container prints from now on, and lets it type where the container reads. */
export async function serveAttach(
  run: ContainerView,
  channels: Channels,
  ended: Promise<number>,
): Promise<void> {
  const stop = new AbortController();
  channels.onClose(() => stop.abort());
  const log = join(run.folder, "log");
  const pipe = join(run.folder, "stdin");
  if (channels.stdin !== undefined && existsSync(pipe)) {
    const writer = openInput(pipe);
    if (writer !== undefined) {
      channels.stdin.pipe(writer);
      stop.signal.addEventListener("abort", () => writer.destroy(), { once: true });
    }
  }
  channels.onResize((size) => void resizeOf(run.folder, size).catch(() => {}));
  const code = ended.then((it) => {
    stop.abort();
    return it;
  });
  if (channels.stdout !== undefined)
    for await (const chunk of followFile(log, statSync(log).size, stop.signal)) channels.stdout.write(chunk);
  await channels.finish(exitStatus(await code));
}

/** Undefined if the input has no reader any more: the input of a container with `stdinOnce` has ended. */
function openInput(pipe: string): Socket | undefined {
  try {
    // A socket, and not a file stream: a program that does not read must not hold up anything else here.
    const fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    return new Socket({ fd, readable: false, writable: true }).on("error", () => {});
  } catch (error) {
    if (Error.isError(error) && "code" in error && error.code === "ENXIO") return undefined;
    throw error;
  }
}

/** Resizes a container's own terminal. */
async function resizeOf(folder: string, size: TerminalSize): Promise<void> {
  const file = join(folder, "terminal");
  if (!existsSync(file)) return;
  const fd = openSync(readFileSync(file, "utf8"), constants.O_RDWR | constants.O_NOCTTY);
  try {
    await resizeTerminal(fd, size);
  } finally {
    closeSync(fd);
  }
}
