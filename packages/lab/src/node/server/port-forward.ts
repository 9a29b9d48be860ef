import { connect, type Socket } from "node:net";
import { Duplex, PassThrough, pipeline } from "node:stream";
import { createWebSocketStream, type WebSocket } from "ws";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { start } from "@fairlead/base/exec.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { SpdySession, type SpdyStream } from "./spdy/session.ts";

/** Forwards connections of a client to ports of a pod. Programs of a pod are reached on its own loopback, as upstream. */

/** kubectl wraps the SPDY connection in WebSocket messages under this name (KEP-4006). */
export const TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io";
export const PORT_FORWARD_PROTOCOL = "portforward.k8s.io";

/** How long a client's error stream waits for its data stream. Unit: milliseconds. */
const PAIR_TIMEOUT_MS = 30_000;

export interface ForwardTarget {
  /** Namespace of the pod; undefined for a pod on its node's network. */
  readonly netns: string | undefined;
}

/** SPDY: each connection is a pair of streams with one `requestid`, of the `streamtype`s error and data. */
export async function servePortForward(
  transport: Duplex,
  head: Buffer,
  target: ForwardTarget,
): Promise<void> {
  const waiting = new Map<string, { error?: SpdyStream; data?: SpdyStream; timer: AbortSignal }>();
  const session = new SpdySession(transport, (stream) => {
    const id = stream.headers.get("requestid") ?? stream.headers.get("port") ?? "";
    const pair = waiting.get(id) ?? { timer: AbortSignal.timeout(PAIR_TIMEOUT_MS) };
    waiting.set(id, pair);
    if (stream.headers.get("streamtype") === "error") pair.error = stream;
    else pair.data = stream;
    if (pair.error === undefined || pair.data === undefined) {
      pair.timer.addEventListener("abort", () => waiting.delete(id) && stream.destroy(), { once: true });
      return;
    }
    waiting.delete(id);
    const { error, data } = pair;
    const port = Number(data.headers.get("port"));
    error.resume();
    forward(port, data, target, (message) => error.end(message));
  });
  await session.run(head);
}

export function servePortForwardTunnel(socket: WebSocket, target: ForwardTarget): Promise<void> {
  const transport = createWebSocketStream(socket);
  transport.on("error", () => {});
  return servePortForward(transport, Buffer.alloc(0), target);
}

/**
 * The older form over WebSocket (v4.channel.k8s.io with `port` in the query): channels 2i and 2i+1 are data and error of
 * the i-th port, and each begins with the port in two bytes, little-endian.
 */
export function servePortForwardChannels(
  socket: WebSocket,
  ports: readonly number[],
  target: ForwardTarget,
): void {
  const inputs = ports.map((port, index) => {
    const data = 2 * index;
    const send = (channel: number, body: Buffer, done: () => void = () => {}): void => {
      if (socket.readyState !== socket.OPEN) done();
      else socket.send(Buffer.concat([Buffer.from([channel]), body]), { binary: true }, () => done());
    };
    const head = Buffer.from([port & 0xff, port >> 8]);
    send(data, head);
    send(data + 1, head);
    const input = new PassThrough();
    let connection: Duplex | undefined;
    // Connects at the first byte: a server that speaks first is asked for by an empty message.
    return (body: Buffer): void => {
      if (connection === undefined) {
        connection = openConnection(port, target, (message) => send(data + 1, Buffer.from(message)));
        connection.on("data", (chunk: Buffer) => send(data, chunk));
        input.pipe(connection);
      }
      if (body.length > 0) input.write(body);
    };
  });
  socket.on("message", (message: Buffer) => {
    const channel = message[0] ?? 0;
    if (channel % 2 === 0) inputs[channel / 2]?.(message.subarray(1));
  });
  socket.on("error", () => {});
}

function forward(
  port: number,
  client: Duplex,
  target: ForwardTarget,
  onEnd: (message: string) => void,
): void {
  let failure = "";
  const connection = openConnection(port, target, (message) => (failure = message));
  pipeline(client, connection, () => {});
  pipeline(connection, client, () => onEnd(failure));
}

/**
 * A connection to the port on the pod's loopback. Another network namespace is entered by a process that carries the
 * bytes: all sockets of this process are in its own namespace.
 */
function openConnection(port: number, target: ForwardTarget, onFailure: (message: string) => void): Duplex {
  const refuse = (why: string): void => onFailure(`error forwarding port ${port} to the pod: ${why}\n`);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    refuse("not a port");
    return new PassThrough().end();
  }
  if (target.netns === undefined) {
    const socket: Socket = connect({ port, host: "localhost", allowHalfOpen: true });
    socket.on("error", (error) => refuse(messageOf(error)));
    return socket;
  }
  return carry(target.netns, port, refuse);
}

function carry(netns: string, port: number, refuse: (why: string) => void): Duplex {
  // Half-closed connections are kept for an hour: it is for the two ends to close them.
  const line = inNetns(netns, "socat", ["-t", "3600", "STDIO", `TCP4:127.0.0.1:${port}`]);
  const child = start(line.command, line.args, { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  child.once("error", (error) => refuse(messageOf(error)));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-1000);
    refuse(said.trim());
  });
  const connection = Duplex.from({ readable: child.stdout, writable: child.stdin });
  connection.once("close", () => child.kill("SIGKILL"));
  connection.on("error", () => {});
  return connection;
}
