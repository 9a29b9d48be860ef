import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { expect, it } from "vitest";
import { OwnPace } from "./pace.ts";

it("passes over many items keep a distance that grows with the items up to a limit, by key; over few they keep none", async () => {
  const clock = new FakeClock();
  const pace = new OwnPace(clock, { perItemMs: 1, few: 20, maxMs: 1000 });
  const [a, b] = [objectKey(undefined, "a"), objectKey(undefined, "b")];
  pace.note(a, 20);
  expect(pace.waitMs(a)).toBe(0);
  pace.note(a, 300);
  expect(pace.waitMs(a)).toBe(300);
  expect(pace.waitMs(b)).toBe(0);
  await clock.advance(299);
  expect(pace.waitMs(a)).toBe(1);
  await clock.advance(1);
  expect(pace.waitMs(a)).toBe(0);
  pace.note(a, 50_000);
  expect(pace.waitMs(a)).toBe(1000);
  pace.forget(a);
  expect(pace.waitMs(a)).toBe(0);
});
