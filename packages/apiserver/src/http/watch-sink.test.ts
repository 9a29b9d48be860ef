import { describe, expect, it } from "vitest";
import { ChunkFrames } from "./watch-sink.ts";

describe("frames of watchers", () => {
  const [one, two] = [Buffer.from("one\n"), Buffer.from("two\n")];

  it("hold all pieces in one chunk", () => {
    expect(new ChunkFrames().of([one, two]).toString()).toBe("8\r\none\ntwo\n\r\n");
  });

  it("are built once for watchers that receive the same pieces", () => {
    const frames = new ChunkFrames();
    expect(frames.of([one, two])).toBe(frames.of([one, two]));
    expect(frames.of([two]).toString()).toBe("4\r\ntwo\n\r\n");
    expect(frames.of([one]).toString()).toBe("4\r\none\n\r\n");
  });
});
