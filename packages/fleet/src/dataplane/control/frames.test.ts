import { createSecretKey } from "node:crypto";
import { PassThrough } from "node:stream";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { boundKey, type Frame, FrameReader, FrameWriter } from "./frames.ts";

const frame: fc.Arbitrary<Frame> = fc.record({
  index: fc.nat(1023),
  parity: fc.nat(1),
  payload: fc.uint8Array({ minLength: 1, maxLength: 60 }).map((it) => Buffer.from(it)),
});

/** What a writer puts into a stream. */
async function written(frames: readonly Frame[]): Promise<Buffer> {
  const stream = new PassThrough();
  const writer = new FrameWriter(stream);
  for (const it of frames) expect(writer.write(it)).toBe(true);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  return (stream.read() as Buffer | null) ?? Buffer.alloc(0);
}

it("frames are read as they were written, however the stream is cut", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(frame, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 50 })),
      async (frames, cuts) => {
        const bytes = await written(frames);
        const reader = new FrameReader();
        const read: Frame[] = [];
        let at = 0;
        for (const length of [...cuts, bytes.length]) {
          read.push(...(reader.read(bytes.subarray(at, at + length)) ?? []));
          at += length;
        }
        expect(read).toEqual(frames);
      },
    ),
    { numRuns: 50 },
  );
});

it("a stream that does not consist of frames is refused", () => {
  expect(new FrameReader().read(Buffer.from("GET / HTTP/1.1\r\n\r\n"))).toBeUndefined();
  expect(new FrameReader().read(Buffer.alloc(4))).toBeUndefined();
});

it("datagrams are dropped while too much waits, and when they are too long", () => {
  const stream = new PassThrough({ highWaterMark: 1 });
  const writer = new FrameWriter(stream);
  const payload = Buffer.alloc(9000);
  let accepted = 0;
  while (accepted < 1000 && writer.write({ index: 0, parity: 0, payload })) accepted++;
  expect(accepted * payload.length).toBeGreaterThan(256 * 1024 - 9000);
  expect(accepted * payload.length).toBeLessThan(300 * 1024);
  expect(new FrameWriter(new PassThrough()).write({ index: 0, parity: 0, payload: Buffer.alloc(9217) })).toBe(
    false,
  );
});

it("the key of one connection is not that of another", () => {
  const key = createSecretKey(Buffer.alloc(32));
  expect(boundKey(key, Buffer.from("a")).equals(boundKey(key, Buffer.from("b")))).toBe(false);
});
