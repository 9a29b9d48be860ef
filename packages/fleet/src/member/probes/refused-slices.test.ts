import { expect, it } from "vitest";
import { RefusedSlices } from "./refused-slices.ts";

const S = { cluster: "a", slice: "s" };
const T = { cluster: "a", slice: "t" };

it("a slice refuses connections if all of its endpoints did when they were asked last", () => {
  const refused = new RefusedSlices();
  const found = () => refused.list(() => 2);
  refused.note(S, "10.0.0.1", true);
  refused.note(S, "10.0.0.1", true);
  expect(found()).toEqual([]);
  refused.note(S, "10.0.0.2", true);
  expect(found()).toEqual([S]);
  refused.note(T, "10.0.0.2", false);
  expect(found()).toEqual([S]);
  refused.note(S, "10.0.0.2", false);
  expect(found()).toEqual([]);
});

it("nothing is known of a slice that has changed", () => {
  const refused = new RefusedSlices();
  for (const it of [S, T]) refused.note(it, "10.0.0.1", true);
  refused.forget("a", "s");
  expect(refused.list(() => 1)).toEqual([T]);
});
