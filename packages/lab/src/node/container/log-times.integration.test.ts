import { appendFileSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { isTooLong, MAX_LOG_BYTES } from "./log-bound.ts";
import { watchLogTimes } from "./log-times.ts";

const LINES = `${"x".repeat(1023)}\n`.repeat(MAX_LOG_BYTES / 1024 + 1);

it("the growth of a log is noted, too, where the machine cannot watch files any more", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-log-"));
  const log = join(folder, "log");
  const noWatch = (): never => {
    throw new Error("EMFILE: too many open files, watch");
  };
  try {
    writeFileSync(log, "");
    using _watch = watchLogTimes(folder, systemClock, noWatch);
    appendFileSync(log, "line\n");
    await expect.poll(() => existsSync(join(folder, "log-times")), { timeout: 20_000 }).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("a log that grows too long while its beginning is released, and then no more, is bounded all the same", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-log-"));
  const log = join(folder, "log");
  try {
    writeFileSync(log, LINES);
    using _watch = watchLogTimes(folder, systemClock);
    // The program that releases the beginning is still running.
    appendFileSync(log, LINES);
    await expect.poll(() => isTooLong(folder, statSync(log).size), { timeout: 20_000 }).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
