import * as fc from "fast-check";
import { expect, it } from "vitest";
import { TextPool } from "./text-pool.ts";

it("values say the same after their texts are shared", () => {
  const pool = new TextPool(10);
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const before = JSON.stringify(value);
      expect(JSON.stringify(pool.share(value))).toBe(before);
    }),
  );
});

it("a text that occurs again is known, and those that do not are forgotten", () => {
  const pool = new TextPool(100);
  const often = "a reason that all give";
  for (let at = 0; at < 1000; at += 1) pool.share({ name: `a name of its own, ${at}`, reasons: [often] });
  expect(pool.size).toBeLessThanOrEqual(200);
  const before = pool.size;
  pool.share([often]);
  expect(pool.size).toBe(before);
});

it("short and long texts are left alone", () => {
  const pool = new TextPool(100);
  pool.share({ status: "True", message: "x".repeat(1000) });
  expect(pool.size).toBe(0);
});

it("texts are shared down to 64 levels: deeper ones are left alone, and no nesting exhausts the stack", () => {
  const nested = (levels: number): unknown => {
    let value: unknown = "a reason that all give";
    for (let at = 0; at < levels; at += 1) value = at % 2 === 0 ? [value] : { value };
    return value;
  };
  const pool = new TextPool(100);
  pool.share(nested(100_000));
  pool.share(nested(65));
  expect(pool.size).toBe(0);
  pool.share(nested(64));
  expect(pool.size).toBe(1);
});
