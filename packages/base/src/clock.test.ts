import { expect, it } from "vitest";
import { systemClock } from "./clock.ts";

function called(delayMs: number): { readonly promise: Promise<void>; readonly timer: Disposable } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { promise, timer: systemClock.after(delayMs, resolve) };
}

it("a timer of the system's clock that is due already, or in a year, is set without a warning", async () => {
  const warnings: string[] = [];
  const onWarning = (it: Error): void => void warnings.push(it.name);
  process.on("warning", onWarning);
  let isEarly = false;
  const year = systemClock.after(365 * 24 * 3_600_000, () => (isEarly = true));
  await called(-0.1).promise;
  await called(5).promise;
  year[Symbol.dispose]();
  process.off("warning", onWarning);
  expect({ warnings, isEarly }).toEqual({ warnings: [], isEarly: false });
});
