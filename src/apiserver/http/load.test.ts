import { describe, expect, it } from "vitest";
import { WriteLimit } from "./load.ts";

describe("the limit of writes", () => {
  it("turns away the thousand-and-first at once, and takes more as soon as one is done", () => {
    const limit = new WriteLimit();
    const held = Array.from({ length: 1000 }, () => limit.enter("POST"));
    expect(() => limit.enter("PUT")).toThrow(expect.objectContaining({ code: 429 }));
    expect(() => limit.enter("GET")).not.toThrow();
    held[0]?.[Symbol.dispose]();
    expect(() => limit.enter("PATCH")).not.toThrow();
  });
});
