import { messageOf } from "@fairlead/base/errors.ts";
import { byText } from "@fairlead/base/text.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  ClusterUpgradeStatus,
  HealthCheck,
  HealthRule,
  Measurements,
  MemberUpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { bounded, fail, setState, type Walk } from "./walk.ts";

/** Judges members during and after their upgrade, by what was measured of them. */

/** "during": the engine works. "after": it has ended. */
export type HealthPhase = "during" | "after";

export interface HealthFacts {
  readonly phase: HealthPhase;
  readonly now: Measurements;
  /** When the upgrade began. */
  readonly before: Measurements;
}

/** Compiles an expression over `object.now`, `object.before` and `object.phase`. Throws if it is invalid, and the result if it has no value. */
export type CompileRule = (expression: string) => (object: object) => boolean;

const WATCH_SECONDS = 300;
const TOLERATED_SECONDS = 120;

const MAX_MEASUREMENTS = 50;
const NAME = /^[A-Za-z]\w{0,62}$/;

/** Those that rules can name, as far as a run keeps them. */
export function boundedMeasurements(reported: Measurements): Measurements {
  const named = Object.entries(reported).filter(([name]) => NAME.test(name));
  return Object.fromEntries(named.toSorted(([a], [b]) => byText(a, b)).slice(0, MAX_MEASUREMENTS));
}

/** Rules of a check that has none. While nodes are replaced, services must keep endpoints; afterwards, nodes must be ready. */
const DEFAULT_RULES: readonly { readonly name: string; readonly holds: (facts: HealthFacts) => boolean }[] = [
  {
    name: "no service loses all its endpoints",
    holds: ({ now, before }) =>
      (now["servicesWithoutEndpoints"] ?? 0) <= (before["servicesWithoutEndpoints"] ?? 0),
  },
  {
    name: "nodes are ready",
    holds: ({ now, phase }) => phase === "during" || (now["readyNodes"] ?? 0) >= (now["nodes"] ?? 0),
  },
];

/** @returns The first rule that does not hold, with the reason; undefined if all do. */
export function findFault(
  rules: readonly HealthRule[] | undefined,
  facts: HealthFacts,
  compile: CompileRule | undefined,
): string | undefined {
  if (rules === undefined) return DEFAULT_RULES.find((it) => !it.holds(facts))?.name;
  for (const { name, expression } of rules) {
    try {
      if (compile === undefined) return `${name}: the hub cannot evaluate expressions`;
      if (!compile(expression)(facts)) return name;
    } catch (error) {
      return `${name}: ${messageOf(error)}`;
    }
  }
  return undefined;
}

/**
 * Judges a member that is Running, and ends its upgrade: Completed when its engine has ended and it was healthy to the end of
 * the watch, Failed when it was not for longer than is tolerated.
 */
export function judge(
  walk: Walk,
  member: MemberUpdateStatus,
  check: HealthCheck,
  seen: { readonly observed: ClusterUpgradeStatus | undefined; readonly phase: HealthPhase },
): void {
  const { nowMs } = walk.facts;
  if (seen.phase === "after") member.engineEndTime ??= timestamp(nowMs);
  const fault = faultOf(walk, member, check, seen);
  if (fault !== undefined) {
    member.unhealthySince ??= timestamp(nowMs);
    const untilMs = Date.parse(member.unhealthySince) + (check.toleratedSeconds ?? TOLERATED_SECONDS) * 1000;
    member.message = bounded(`not healthy: ${fault}`);
    if (nowMs >= untilMs) fail(walk, member.status, "Unhealthy", fault);
    else walk.again(untilMs);
    return;
  }
  delete member.unhealthySince;
  if (member.engineEndTime === undefined) return;
  const watchedMs = Date.parse(member.engineEndTime) + (check.watchSeconds ?? WATCH_SECONDS) * 1000;
  if (nowMs >= watchedMs) return setState(walk, member.status, "Completed");
  member.message = `upgraded; watched until ${timestamp(watchedMs)}`;
  walk.again(watchedMs);
}

function faultOf(
  { facts }: Walk,
  { name, before = {} }: MemberUpdateStatus,
  { rules }: HealthCheck,
  { observed, phase }: { readonly observed: ClusterUpgradeStatus | undefined; readonly phase: HealthPhase },
): string | undefined {
  if (facts.isSilent?.(name) === true) return "the member does not answer";
  if (observed?.measurements === undefined) return "the member reports no measurements";
  return findFault(rules, { phase, now: observed.measurements, before }, facts.compile);
}
