/** Frames of SPDY/3.1 (draft-mbelshe-httpbis-spdy-00, section 2.2), as far as exec and port-forward use them. Pure. */

export type Frame =
  | { readonly type: "data"; readonly streamId: number; readonly isLast: boolean; readonly data: Buffer }
  | {
      readonly type: "syn-stream";
      readonly streamId: number;
      readonly isLast: boolean;
      readonly block: Buffer;
    }
  | { readonly type: "rst-stream"; readonly streamId: number }
  | { readonly type: "ping"; readonly payload: Buffer }
  | { readonly type: "goaway" }
  /** SETTINGS, HEADERS, WINDOW_UPDATE and what is not known: nothing here depends on them. */
  | { readonly type: "other"; readonly kind: number };

const HEAD_BYTES = 8;
const CONTROL = 0x80;
const VERSION = 3;
const FIN = 0x01;
const KIND = { synStream: 1, synReply: 2, rstStream: 3, ping: 6, goaway: 7 } as const;

/** The first frame in `bytes` and how long it is; undefined when more bytes are needed. */
export function decodeFrame(bytes: Buffer): { readonly frame: Frame; readonly length: number } | undefined {
  if (bytes.length < HEAD_BYTES) return undefined;
  const length = HEAD_BYTES + bytes.readUIntBE(5, 3);
  if (bytes.length < length) return undefined;
  const flags = bytes[4] ?? 0;
  const body = bytes.subarray(HEAD_BYTES, length);
  const isLast = (flags & FIN) !== 0;
  if (((bytes[0] ?? 0) & CONTROL) !== 0)
    return { frame: decodeControl(bytes.readUInt16BE(2), isLast, body), length };
  const streamId = bytes.readUInt32BE(0);
  return { frame: { type: "data", streamId, isLast, data: body }, length };
}

function decodeControl(kind: number, isLast: boolean, body: Buffer): Frame {
  const streamId = body.length >= 4 ? body.readUInt32BE(0) & 0x7f_ff_ff_ff : 0;
  if (kind === KIND.synStream && body.length >= 10)
    return { type: "syn-stream", streamId, isLast, block: body.subarray(10) };
  if (kind === KIND.rstStream) return { type: "rst-stream", streamId };
  if (kind === KIND.ping) return { type: "ping", payload: body };
  if (kind === KIND.goaway) return { type: "goaway" };
  return { type: "other", kind };
}

export function encodeData(streamId: number, data: Uint8Array, isLast: boolean): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(streamId, 0);
  head[4] = isLast ? FIN : 0;
  head.writeUIntBE(data.length, 5, 3);
  return Buffer.concat([head, data]);
}

export function encodeSynStream(streamId: number, block: Buffer): Buffer {
  const body = Buffer.alloc(10);
  body.writeUInt32BE(streamId, 0);
  return control(KIND.synStream, Buffer.concat([body, block]));
}

export function encodeSynReply(streamId: number, block: Buffer): Buffer {
  return control(KIND.synReply, Buffer.concat([uint32(streamId), block]));
}

/** Status 5, CANCEL. */
export function encodeReset(streamId: number): Buffer {
  return control(KIND.rstStream, Buffer.concat([uint32(streamId), uint32(5)]));
}

export function encodePing(payload: Buffer): Buffer {
  return control(KIND.ping, payload);
}

/** Status 0, OK. */
export function encodeGoaway(lastStreamId: number): Buffer {
  return control(KIND.goaway, Buffer.concat([uint32(lastStreamId), uint32(0)]));
}

function control(kind: number, body: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt16BE((CONTROL << 8) | VERSION, 0);
  head.writeUInt16BE(kind, 2);
  head.writeUIntBE(body.length, 5, 3);
  return Buffer.concat([head, body]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
