import { expect, it } from "vitest";
import { formatPropagation, parsePropagation, propagationOf } from "./propagation.ts";

it("percentiles are values that were measured", () => {
  const all = Array.from({ length: 100 }, (_, at) => 100 - at);
  expect(propagationOf("a", all)).toEqual({ from: "a", p50Ms: 50, p99Ms: 99, count: 100 });
  expect(propagationOf("a", [7.4])).toEqual({ from: "a", p50Ms: 7, p99Ms: 7, count: 1 });
});

it("propagation is read as it was written, in the order of names", () => {
  const [a, b] = [propagationOf("a", [1, 2]), propagationOf("east-1.eu", [100_000])];
  expect(formatPropagation([b, a])).toBe("a=1/2/2,east-1.eu=100000/100000/1");
  expect(parsePropagation(formatPropagation([b, a]))).toEqual([a, b]);
  expect(parsePropagation("")).toEqual([]);
});

it("what a member writes in another form is left out, and what is too long is not read", () => {
  expect(parsePropagation("a=1/2,B=1/2/3,\u001b[31m=1/2/3,a=1/2/3/4,=1/2/3,c=1e9/2/3,d=1/2/3")).toEqual([
    { from: "d", p50Ms: 1, p99Ms: 2, count: 3 },
  ]);
  expect(parsePropagation("a=1/2/3,".repeat(100_000)).length).toBeLessThan(5000);
});
