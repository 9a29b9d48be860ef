import { setFlagsFromString } from "node:v8";
import { FleetError } from "@fairlead/base/errors.ts";
import { type HealthCheck, HealthRegistry } from "@fairlead/base/health.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { createMetrics, type MetricsRegistry } from "@fairlead/base/metrics.ts";
import { createProcessMetrics } from "@fairlead/base/process-metrics.ts";
import { type RuntimeDeps, systemDeps } from "@fairlead/base/deps.ts";
import { skewedClock } from "@fairlead/base/program/clock-offset.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";

/** The common part of programs that run controllers. */

export interface ManagerFlags {
  readonly concurrency?: readonly string[] | undefined;
  readonly maxConcurrentReconciles?: string | undefined;
  readonly clockOffset?: string | undefined;
  /** "little": for programs of which each cluster has one. Default: "little". */
  readonly memory?: "little" | "as needed";
}

export const CONCURRENCY_FLAG = [
  "--concurrency <controller=number>",
  "number of concurrent reconciles of a controller, 1 to 1000; repeatable",
] as const;
export const MAX_CONCURRENT_FLAG = [
  "--max-concurrent-reconciles <number>",
  "number of concurrent reconciles of every other controller; default: each controller's own",
] as const;
export interface ManagerParts {
  readonly deps: RuntimeDeps;
  readonly metrics: MetricsRegistry;
  readonly health: HealthRegistry;
}

export function createManagerParts(log: Logger, flags: ManagerFlags): ManagerParts {
  if (flags.memory !== "as needed") preferLittleMemory();
  const metrics = createMetrics();
  const health = new HealthRegistry();
  health.register({ name: "ping", kind: "live", problem: () => undefined });
  createProcessMetrics(metrics);
  const clock = skewedClock(flags.clockOffset);
  return {
    metrics,
    health,
    deps: { ...systemDeps(log, metrics), clock, health, concurrency: parseConcurrency(flags) },
  };
}

/**
 * A manager has few long-lived objects and little garbage, and shares its machine with many others. By default, V8's young
 * generation grows to many times the necessary size, and the old one to several times the size of its live objects.
 */
function preferLittleMemory(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--memory-saver-mode");
}

function parseConcurrency(flags: ManagerFlags): (controller: string) => number | undefined {
  const range = { min: 1, max: 1000 };
  const all =
    flags.maxConcurrentReconciles === undefined
      ? undefined
      : parseWhole("--max-concurrent-reconciles", flags.maxConcurrentReconciles, range);
  const byName = new Map<string, number>();
  for (const text of flags.concurrency ?? []) {
    const [name = "", count = ""] = text.split("=", 2);
    if (name === "")
      throw new FleetError("OPTION_INVALID", `--concurrency must be CONTROLLER=NUMBER, got ${text}`);
    byName.set(name, parseWhole(`--concurrency ${name}`, count, range));
  }
  return (controller) => byName.get(controller) ?? all;
}

const HUB_PART = "hub/";
const isOfHub = (it: HealthCheck): boolean => it.name.startsWith(HUB_PART);

/** The checks of a member: an unreachable hub is shown, but does not make the member unready. */
export function checksOfMember(health: HealthRegistry): Iterable<HealthCheck> {
  return lazily(health, (it) => (isOfHub(it) && it.kind === "ready" ? { ...it, kind: "note" } : it));
}

/** The checks of one side of a member's manager: the hub's side, or that of its own cluster. */
export function checksOfSide(health: HealthRegistry, side: "hub" | "member"): Iterable<HealthCheck> {
  return lazily(health, (it) => (it.kind === "live" || isOfHub(it) === (side === "hub") ? it : undefined));
}

/** Checks are added and removed while the program runs, so they are read on each request. */
function lazily(
  health: HealthRegistry,
  pick: (check: HealthCheck) => HealthCheck | undefined,
): Iterable<HealthCheck> {
  return { [Symbol.iterator]: () => [...health].flatMap((it) => pick(it) ?? [])[Symbol.iterator]() };
}
