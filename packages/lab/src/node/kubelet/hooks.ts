import { type Clock, delay } from "@fairlead/base/clock.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Attempt, ProbeOutcome, ProbeTarget } from "../probe/attempt.ts";

/** `lifecycle.postStart` and `lifecycle.preStop`: what runs right after a container's start, and before its end. */

/** Runs a hook; undefined where the container has none. */
export function hookOf(
  name: "postStart" | "preStop",
  target: ProbeTarget,
  deps: { readonly attempt: Attempt; readonly clock: Clock },
): ((timeoutMs: number, signal: AbortSignal) => Promise<ProbeOutcome>) | undefined {
  const hook = target.container.lifecycle?.[name];
  if (!isObject(hook)) return undefined;
  const { sleep } = hook;
  if (isObject(sleep)) {
    return async (_, signal) => {
      await delay(deps.clock, Number(sleep["seconds"] ?? 0) * 1000, signal);
      return { ok: true, message: "" };
    };
  }
  return (timeoutMs) => deps.attempt(hook, target, timeoutMs);
}
