import * as fc from "fast-check";
import { expect, it } from "vitest";
import { splitLines } from "./lines.ts";

async function linesOf(chunks: readonly Uint8Array[], maxBytes = 1000): Promise<string[]> {
  async function* source(): AsyncGenerator<Uint8Array> {
    await Promise.resolve();
    yield* chunks;
  }
  const lines: string[] = [];
  for await (const line of splitLines(source(), maxBytes)) lines.push(line);
  return lines;
}

it("gives the same lines however the bytes are cut, characters included", async () => {
  const text = fc.string({ unit: "grapheme" }).map((it) => it.replaceAll("\n", ""));
  await fc.assert(
    fc.asyncProperty(fc.array(text), fc.array(fc.nat()), async (lines, cuts) => {
      const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""), "utf8");
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted(
        (a, b) => a - b,
      );
      const chunks = places.slice(1).map((place, at) => bytes.subarray(places[at], place));
      expect(await linesOf(chunks)).toEqual(lines.filter((line) => line !== ""));
    }),
  );
});

it("drops an incomplete last line", async () => {
  expect(await linesOf([Buffer.from('{"a":1}\n{"b"')])).toEqual(['{"a":1}']);
});

it("rejects a line without end", async () => {
  await expect(linesOf([Buffer.alloc(600, 97), Buffer.alloc(600, 97)])).rejects.toThrow(
    "longer than 1000 bytes",
  );
});
