import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { untilOnlyAgent } from "./only-agent.ts";

it("lets a second agent of a node wait until the first one has ended", async () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const log = { ...silentLogger, warn: (line: string) => void lines.push(line) };
  const { signal } = new AbortController();
  const first = await untilOnlyAgent({ clock, log }, signal);
  let isStarted = false;
  const second = untilOnlyAgent({ clock, log }, signal).then((it) => {
    isStarted = true;
    return it;
  });
  for (let at = 0; at < 3; at += 1) {
    await expect.poll(() => clock.pending).toBe(1);
    await clock.advance(1000);
  }
  expect({ isStarted, lines: lines.length }).toEqual({ isStarted: false, lines: 1 });
  await first[Symbol.asyncDispose]();
  await clock.advance(1000);
  await (await second)[Symbol.asyncDispose]();
});
