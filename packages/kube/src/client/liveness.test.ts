import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { livenessGuard } from "./liveness.ts";

const forever = new AbortController().signal;

it("ends a stream on silence, not on length", async () => {
  const clock = new FakeClock();
  using guard = livenessGuard(clock, 1000, forever);
  let push: (chunk: Uint8Array) => void = () => {};
  async function* source(): AsyncGenerator<Uint8Array> {
    for (;;)
      yield await new Promise<Uint8Array>((resolve) => {
        push = resolve;
      });
  }
  const chunks = guard.watchOver(source())[Symbol.asyncIterator]();
  for (let count = 0; count < 5; count++) {
    const next = chunks.next();
    await clock.advance(900);
    push(Buffer.from("x"));
    await next;
  }
  expect(guard.isDead).toBe(false);
  await clock.advance(1000);
  expect(guard.isDead).toBe(true);
  expect(guard.signal.aborted).toBe(true);
});

it("has no timer after dispose, or without a limit", () => {
  const clock = new FakeClock();
  livenessGuard(clock, 1000, forever)[Symbol.dispose]();
  const guard = livenessGuard(clock, undefined, forever);
  expect(clock.pending).toBe(0);
  expect(guard.signal).toBe(forever);
});
