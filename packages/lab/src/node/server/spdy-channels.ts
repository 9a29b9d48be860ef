import type { Duplex } from "node:stream";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import type { TerminalSize } from "../container/pty.ts";
import { type Channels, parseSize, type StreamWish } from "./channels.ts";
import { SpdySession, type SpdyStream } from "./spdy/session.ts";

/** exec and attach over SPDY/3.1: the client opens one stream for each thing it wants, named by `streamtype`. */

/** What kubelets know. A client's best one wins; from v4 on the end is a Status on the error stream. */
const SPDY_PROTOCOLS = [
  "v5.channel.k8s.io",
  "v4.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
] as const;

/** The kubelet speaks up to v4 over SPDY: v5 adds a close signal that SPDY has by itself. */
export function chooseSpdyProtocol(offered: readonly string[]): string | undefined {
  return (
    SPDY_PROTOCOLS.slice(1).find((it) => offered.includes(it)) ?? (offered.length === 0 ? "" : undefined)
  );
}

/** For clients of a terminal that open a stream more than is waited for, after a command that was quick. Unit: milliseconds. */
const LATE_MS = 5000;

/**
 * Resolves once the client has opened its streams; undefined when it goes away before.
 *
 * Clients of a terminal open a stream for stderr or one for resizing, or both: whatever comes is accepted, and waited
 * for is what the query asks for.
 */
export async function spdyChannels(
  transport: Duplex,
  head: Buffer,
  of: { readonly wish: StreamWish; readonly protocol: string; readonly clock?: Clock },
): Promise<Channels | undefined> {
  const { wish, protocol, clock = systemClock } = of;
  const streams = new Map<string, SpdyStream>();
  const resizes: ((size: TerminalSize) => void)[] = [];
  const closes: (() => void)[] = [];
  let isFinished = false;
  const wanted = [
    "error",
    ...(["stdin", "stdout", "stderr"] as const).filter((it) => wish[it] && !(it === "stderr" && wish.tty)),
  ];
  const complete = Promise.withResolvers<boolean>();
  const session = new SpdySession(transport, (stream) => {
    const type = stream.headers.get("streamtype") ?? "";
    streams.set(type, stream);
    if (isFinished) void endStream(stream);
    if (type === "resize") readSizes(stream, (size) => resizes.forEach((it) => it(size)));
    if (wanted.every((it) => streams.has(it))) complete.resolve(true);
  });
  const late = new DisposableStack();
  void session.run(head).then(() => {
    late.dispose();
    complete.resolve(false);
    if (!isFinished) closes.forEach((it) => it());
    return undefined;
  });
  if (!(await complete.promise)) return undefined;
  return {
    stdin: wish.stdin ? streams.get("stdin") : undefined,
    stdout: streams.get("stdout"),
    stderr: streams.get("stderr"),
    onResize: (listener) => void resizes.push(listener),
    onClose: (listener) => void closes.push(listener),
    finish: async (status) => {
      isFinished = true;
      const ends = ["stdout", "stderr", "resize", "stdin"].map((it) => endStream(streams.get(it)));
      await Promise.all(ends);
      await endStream(streams.get("error"), renderEnd(status, protocol));
      // After GOAWAY a client reads nothing, and would wait for the answer to a stream that it has just opened.
      const isWhole = !wish.tty || (streams.has("stderr") && streams.has("resize"));
      if (isWhole || late.disposed) session.close();
      else late.use(clock.after(LATE_MS, () => session.close()));
    },
  };
}

/** Before v4 an empty error stream means success, and anything on it is the message of a failure. */
function renderEnd(status: Status, protocol: string): string {
  if (protocol === "v4.channel.k8s.io" || protocol === "v5.channel.k8s.io") return JSON.stringify(status);
  return status.status === "Success" ? "" : (status.message ?? "failed");
}

function endStream(stream: SpdyStream | undefined, text = ""): Promise<void> {
  return new Promise((resolve) => {
    if (stream === undefined || stream.destroyed) resolve();
    else stream.end(text, () => resolve());
    stream?.once("close", () => resolve());
  });
}

function readSizes(stream: SpdyStream, onSize: (size: TerminalSize) => void): void {
  let pending = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    // Each size is one JSON object; several may come in one frame.
    pending += text;
    for (let end = pending.indexOf("}"); end >= 0; end = pending.indexOf("}")) {
      const size = parseSize(pending.slice(0, end + 1));
      pending = pending.slice(end + 1).trimStart();
      if (size !== undefined) onSize(size);
    }
  });
}
