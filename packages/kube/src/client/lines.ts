const NEWLINE = 10;

/**
 * Splits a stream of bytes into lines, without the newline. Works on bytes: a chunk may end within a character.
 * What follows the last newline is dropped: a watch event that was cut off did not happen yet.
 *
 * @param maxBytes - Longest line taken.
 * @throws {RangeError} on a longer line.
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<string> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const part of chunks) {
    const chunk = Buffer.from(part.buffer, part.byteOffset, part.byteLength);
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
      const tail = chunk.subarray(from, to);
      from = to + 1;
      const line = pendingBytes === 0 ? tail : Buffer.concat([...pending, tail]);
      pending = [];
      pendingBytes = 0;
      if (line.length > 0) yield line.toString("utf8");
    }
    if (from === chunk.length) continue;
    pending.push(chunk.subarray(from));
    pendingBytes += chunk.length - from;
    if (pendingBytes > maxBytes) throw new RangeError(`a line is longer than ${maxBytes} bytes`);
  }
}
