import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";

/**
 * Datagrams over TLS between a gateway and a relay, where UDP is dropped. Each is preceded by its length (2 bytes), and by
 * the index of the other gateway of the pair and the parity of the epoch (2 bytes: `2 * index + parity`).
 */
export interface Frame {
  /** Of the other gateway: to the relay the one that it is for, from the relay the one that it is from. */
  readonly index: number;
  readonly parity: number;
  readonly payload: Buffer;
}

const HEAD_BYTES = 4;
/** Longest datagram, as of a tunnel over a link with jumbo frames. */
const MAX_PAYLOAD = 9216;
/** What may wait for a slow connection; further datagrams are dropped, as by a full queue of a link. Unit: bytes. */
const MAX_QUEUED = 256 * 1024;
const BINDING_BYTES = 32;

/**
 * Ties the key of control datagrams to one TLS connection: a proxy between two connections (which may present any
 * certificate) has a different one with either side. So certificates need not be known beforehand.
 */
export function boundKey(key: KeyObject, binding: Uint8Array): KeyObject {
  return createSecretKey(createHmac("sha256", key).update(binding).digest());
}

/** A value that only the two ends of a TLS connection have (RFC 9266, RFC 5705). */
export function bindingOf(socket: TLSSocket): Buffer {
  return socket.exportKeyingMaterial(BINDING_BYTES, "EXPORTER-fairlead-relay", Buffer.alloc(0));
}

/** Takes frames out of a stream. Keeps no more than one incomplete frame. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  /** The frames that are complete; undefined if the stream does not consist of frames, and the connection must be closed. */
  read(chunk: Buffer): readonly Frame[] | undefined {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    let at = 0;
    while (bytes.length - at >= HEAD_BYTES) {
      const length = bytes.readUInt16BE(at);
      if (length === 0 || length > MAX_PAYLOAD) return undefined;
      const end = at + HEAD_BYTES + length;
      if (end > bytes.length) break;
      const tag = bytes.readUInt16BE(at + 2);
      frames.push({ index: tag >> 1, parity: tag & 1, payload: bytes.subarray(at + HEAD_BYTES, end) });
      at = end;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    return frames;
  }
}

/** Writes frames into a stream, all of one turn of the loop together. */
export class FrameWriter {
  readonly #stream: Duplex;
  #isCorked = false;

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** Returns false if the frame was dropped, because too much is waiting or it is too long. */
  write({ index, parity, payload }: Frame): boolean {
    const stream = this.#stream;
    if (stream.destroyed || stream.writableLength > MAX_QUEUED) return false;
    if (payload.length === 0 || payload.length > MAX_PAYLOAD) return false;
    if (!this.#isCorked) {
      this.#isCorked = true;
      stream.cork();
      setImmediate(() => {
        this.#isCorked = false;
        stream.uncork();
      });
    }
    const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
    frame.writeUInt16BE(payload.length, 0);
    frame.writeUInt16BE(2 * index + parity, 2);
    payload.copy(frame, HEAD_BYTES);
    stream.write(frame);
    return true;
  }
}
