import { constants, createDeflate, createInflate, type Deflate, type Inflate } from "node:zlib";
import { SPDY_DICTIONARY } from "./dictionary.ts";

/** Name/value header blocks (SPDY/3, section 2.6.10). All blocks of a direction share one zlib stream. */

/** Names in lower case. A name that comes twice holds both values, with a NUL between them. */
export type SpdyHeaders = ReadonlyMap<string, string>;

/** Largest block taken, inflated: a stream's few headers are far smaller. Unit: bytes. */
const MAX_BLOCK = 64 * 1024;

export class HeaderReader {
  readonly #inflate: Inflate = createInflate({ dictionary: SPDY_DICTIONARY });
  #chunks: Buffer[] = [];
  #error: Error | undefined;

  constructor() {
    this.#inflate.on("data", (chunk: Buffer) => this.#chunks.push(chunk));
    this.#inflate.on("error", (error) => (this.#error = error));
  }

  /** One block after another: call again only when the promise before has settled. */
  async read(block: Buffer): Promise<SpdyHeaders> {
    this.#chunks = [];
    await new Promise<void>((resolve) => {
      this.#inflate.once("error", () => resolve());
      this.#inflate.write(block, () => resolve());
    });
    if (this.#error !== undefined) throw this.#error;
    const bytes = Buffer.concat(this.#chunks);
    if (bytes.length > MAX_BLOCK) throw new RangeError("a header block is too large");
    return decodeHeaders(bytes);
  }

  close(): void {
    this.#inflate.destroy();
  }
}

export class HeaderWriter {
  readonly #deflate: Deflate = createDeflate({ dictionary: SPDY_DICTIONARY });
  #chunks: Buffer[] = [];

  constructor() {
    this.#deflate.on("data", (chunk: Buffer) => this.#chunks.push(chunk));
  }

  /** One block after another: call again only when the promise before has settled. */
  async write(headers: SpdyHeaders): Promise<Buffer> {
    this.#chunks = [];
    this.#deflate.write(encodeHeaders(headers));
    await new Promise<void>((resolve) => {
      this.#deflate.flush(constants.Z_SYNC_FLUSH, () => resolve());
    });
    return Buffer.concat(this.#chunks);
  }

  close(): void {
    this.#deflate.destroy();
  }
}

export function encodeHeaders(headers: SpdyHeaders): Buffer {
  const parts: Buffer[] = [uint32(headers.size)];
  for (const [name, value] of headers)
    for (const text of [name, value]) {
      const bytes = Buffer.from(text, "utf8");
      parts.push(uint32(bytes.length), bytes);
    }
  return Buffer.concat(parts);
}

/** @throws {RangeError} when the block ends before its last header does. */
export function decodeHeaders(block: Buffer): SpdyHeaders {
  const headers = new Map<string, string>();
  let at = 0;
  const number = (): number => {
    const value = block.readUInt32BE(at);
    at += 4;
    return value;
  };
  const text = (): string => {
    const length = number();
    if (at + length > block.length) throw new RangeError("a header block is cut short");
    at += length;
    return block.toString("utf8", at - length, at);
  };
  const count = number();
  for (let index = 0; index < count; index++) {
    const name = text().toLowerCase();
    headers.set(name, text());
  }
  return headers;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
