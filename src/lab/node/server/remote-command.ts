import { constants, createWriteStream, existsSync, openSync, statSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "#base/errors.ts";
import { execInContainer } from "../container/exec.ts";
import type { ContainerView } from "../container/runtime.ts";
import { type Channels, connectProgram, exitStatus, failureStatus, type StreamWish } from "./channels.ts";
import { openPty } from "./pty.ts";
import { followFile } from "./follow.ts";

/** Runs a command in a container for a client, and tells the client how it ended. */
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
  // As other runtimes do it: the program goes on until it meets its closed streams, or the container ends.
  channels.onClose(() => executed.stdin?.destroy());
  return connectProgram(executed, channels);
}

async function execOnTerminal(
  run: ContainerView,
  argv: readonly string[],
  channels: Channels,
): Promise<number> {
  const pty = await openPty(run.process?.pid ?? 0);
  try {
    const executed = execInContainer(run, { argv, terminal: pty.terminal });
    pty.closeTerminal();
    channels.onResize((size) => pty.resize(size));
    // Hangs up: what runs on the terminal gets SIGHUP.
    channels.onClose(() => pty.stream.destroy());
    const drained = new Promise<void>((resolve) => {
      pty.stream.once("close", () => resolve());
      pty.stream.once("end", () => resolve());
    });
    if (channels.stdout === undefined) pty.stream.resume();
    else pty.stream.pipe(channels.stdout, { end: false });
    channels.stdin?.on("data", (chunk: Buffer) => void pty.stream.write(chunk));
    const code = await executed.ended;
    await drained;
    return code;
  } finally {
    pty.closeTerminal();
    pty.stream.destroy();
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
    // The shim keeps the reading end open, so this never waits for a reader.
    const fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    const writer = createWriteStream("", { fd });
    writer.on("error", () => {});
    channels.stdin.pipe(writer);
    stop.signal.addEventListener("abort", () => writer.destroy(), { once: true });
  }
  const code = ended.then((it) => {
    stop.abort();
    return it;
  });
  if (channels.stdout !== undefined)
    for await (const chunk of followFile(log, statSync(log).size, stop.signal)) channels.stdout.write(chunk);
  await channels.finish(exitStatus(await code));
}
