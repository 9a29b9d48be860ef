import { Duplex } from "node:stream";
import {
  decodeFrame,
  encodeData,
  encodeGoaway,
  encodePing,
  encodeReset,
  encodeSynReply,
  type Frame,
} from "./frames.ts";
import { HeaderReader, HeaderWriter, type SpdyHeaders } from "./header-block.ts";

/** Longest frame taken. Clients write at most 64 KiB at a time. Unit: bytes. */
const MAX_FRAME = 4 << 20;
/** Bound for data in streams that are not read; beyond it the whole connection waits. Unit: bytes. */
const MAX_BUFFERED = 16 << 20;

/** Writes a frame; `done` is called once it is on its way. */
type Send = (frame: Buffer, done: (error?: Error | null) => void) => void;

/** One stream of a session. Ending it sends FIN; destroying it before sends RST_STREAM. */
export class SpdyStream extends Duplex {
  readonly id: number;
  readonly headers: SpdyHeaders;
  readonly #send: Send;
  #isDone = false;

  constructor(id: number, headers: SpdyHeaders, send: Send) {
    super({ allowHalfOpen: true });
    this.id = id;
    this.headers = headers;
    this.#send = send;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(encodeData(this.id, chunk, false), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#isDone = true;
    this.#send(encodeData(this.id, new Uint8Array(), true), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.#isDone) this.#send(encodeReset(this.id), () => {});
    done(error);
  }
}

/**
 * The server's side of a SPDY/3.1 connection. There is no flow control: the clients at hand (moby/spdystream) neither
 * obey nor send window updates.
 */
export class SpdySession {
  readonly #transport: Duplex;
  readonly #onStream: (stream: SpdyStream) => void;
  readonly #streams = new Map<number, SpdyStream>();
  readonly #reader = new HeaderReader();
  readonly #writer = new HeaderWriter();
  #lastStreamId = 0;

  constructor(transport: Duplex, onStream: (stream: SpdyStream) => void) {
    this.#transport = transport;
    this.#onStream = onStream;
  }

  /** Serves the connection to its end. */
  async run(head: Buffer): Promise<void> {
    let pending = head;
    try {
      pending = await this.#consume(pending);
      for await (const chunk of this.#transport as AsyncIterable<Buffer>) {
        pending = await this.#consume(pending.length === 0 ? chunk : Buffer.concat([pending, chunk]));
        if (pending.length > MAX_FRAME) break;
        await this.#untilRead();
      }
    } catch {
      // The connection or a frame is broken: no reply is possible.
    } finally {
      for (const stream of this.#streams.values()) {
        stream.push(null);
        stream.destroy();
      }
      this.#reader.close();
      this.#writer.close();
      this.#transport.destroy();
    }
  }

  /** Says that no more streams are taken, and closes once all that was sent is on its way. */
  close(): void {
    this.#send(encodeGoaway(this.#lastStreamId), () => this.#transport.end());
  }

  async #consume(bytes: Buffer): Promise<Buffer> {
    let rest = bytes;
    for (let decoded = decodeFrame(rest); decoded !== undefined; decoded = decodeFrame(rest)) {
      rest = rest.subarray(decoded.length);
      await this.#handle(decoded.frame);
    }
    return rest;
  }

  async #handle(frame: Frame): Promise<void> {
    switch (frame.type) {
      case "syn-stream":
        return this.#open(frame);
      case "data":
        this.#deliver(frame);
        return undefined;
      case "rst-stream":
        this.#streams.get(frame.streamId)?.push(null);
        this.#streams.delete(frame.streamId);
        return undefined;
      case "ping":
        this.#send(encodePing(frame.payload), () => {});
        return undefined;
      case "goaway":
      case "other":
        return undefined;
      default:
        return frame satisfies never;
    }
  }

  async #open({ streamId, isLast, block }: Frame & { readonly type: "syn-stream" }): Promise<void> {
    const headers = await this.#reader.read(block);
    const stream = new SpdyStream(streamId, headers, (frame, done) => this.#send(frame, done));
    // The reader of the stream sees its end; an error of the connection is not an error of one stream.
    stream.on("error", () => {});
    stream.once("close", () => this.#streams.delete(streamId));
    this.#streams.set(streamId, stream);
    this.#lastStreamId = streamId;
    this.#send(encodeSynReply(streamId, await this.#writer.write(new Map())), () => {});
    if (isLast) stream.push(null);
    this.#onStream(stream);
  }

  #deliver({ streamId, data, isLast }: Frame & { readonly type: "data" }): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined || stream.readableEnded) return;
    if (data.length > 0) stream.push(data);
    if (isLast) stream.push(null);
  }

  async #untilRead(): Promise<void> {
    const buffered = (): number =>
      [...this.#streams.values()].reduce((sum, it) => sum + it.readableLength, 0);
    while (buffered() > MAX_BUFFERED) {
      const [fullest] = [...this.#streams.values()].toSorted((a, b) => b.readableLength - a.readableLength);
      if (fullest === undefined) return;
      await new Promise<void>((resolve) => {
        fullest.once("data", () => resolve());
        fullest.once("close", () => resolve());
      });
    }
  }

  #send(frame: Buffer, done: (error?: Error | null) => void): void {
    if (this.#transport.writable) this.#transport.write(frame, done);
    else done(new Error("the connection is closed"));
  }
}
