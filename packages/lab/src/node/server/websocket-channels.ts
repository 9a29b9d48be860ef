import { PassThrough, Writable } from "node:stream";
import type { WebSocket } from "ws";
import type { TerminalSize } from "../container/pty.ts";
import { type Channels, parseSize, type StreamWish } from "./channels.ts";

/**
 * The protocols v4.channel.k8s.io and v5.channel.k8s.io: the first byte of a message is the channel, and in v5 a message
 * [255, CHANNEL] closes one. Source: k8s.io/apimachinery/pkg/util/httpstream/wsstream, k8s.io/client-go/tools/remotecommand.
 */
export const CHANNEL_PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"] as const;

const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4, close: 255 } as const;

export function webSocketChannels(socket: WebSocket, wish: StreamWish): Channels {
  const stdin = new PassThrough();
  const resizes: ((size: TerminalSize) => void)[] = [];
  const closes: (() => void)[] = [];
  let isFinished = false;
  socket.on("message", (message: Buffer) => {
    const [channel, second] = message;
    const body = message.subarray(1);
    if (channel === CHANNEL.stdin) {
      // A program that reads slowly slows the client down.
      if (!stdin.writableEnded && !stdin.write(body)) pauseUntilDrained(socket, stdin);
    } else if (channel === CHANNEL.resize) {
      const size = parseSize(body.toString("utf8"));
      if (size !== undefined) for (const listener of resizes) listener(size);
    } else if (channel === CHANNEL.close && second === CHANNEL.stdin) stdin.end();
  });
  socket.on("error", () => {});
  socket.once("close", () => {
    stdin.end();
    if (!isFinished) for (const listener of closes) listener();
  });
  const output = (channel: number, isWanted: boolean): Writable | undefined =>
    isWanted ? channelWriter(socket, channel) : undefined;
  return {
    stdin: wish.stdin ? stdin : undefined,
    stdout: output(CHANNEL.stdout, wish.stdout),
    stderr: output(CHANNEL.stderr, wish.stderr && !wish.tty),
    onResize: (listener) => void resizes.push(listener),
    onClose: (listener) => void closes.push(listener),
    finish: async (status) => {
      isFinished = true;
      await new Promise<void>((resolve) => {
        send(socket, CHANNEL.status, Buffer.from(JSON.stringify(status)), () => resolve());
      });
      socket.close(1000);
    },
  };
}

function channelWriter(socket: WebSocket, channel: number): Writable {
  const writer = new Writable({
    write: (chunk: Buffer, _, done) => {
      send(socket, channel, chunk, done);
    },
  });
  // The client is gone; the close event of the socket reports it.
  writer.on("error", () => {});
  return writer;
}

function send(socket: WebSocket, channel: number, body: Buffer, done: (error?: Error | null) => void): void {
  socket.send(Buffer.concat([Buffer.from([channel]), body]), { binary: true }, done);
}

function pauseUntilDrained(socket: WebSocket, stream: Writable): void {
  socket.pause();
  stream.once("drain", () => socket.resume());
}
