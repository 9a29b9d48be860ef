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
import { failMember, UNHEALTHY } from "./failure.ts";
import { flowMeasurements, type Flows } from "./flows.ts";
import { bounded, setState, type Walk } from "./walk.ts";

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

/** With those that the hub adds, as many as the schema has. */
const MAX_MEASUREMENTS = 46;
const NAME = /^[A-Za-z]\w{0,62}$/;

/** Those that rules can name, as far as a run keeps them. */
export function boundedMeasurements(reported: Measurements): Measurements {
  const named = Object.entries(reported).filter(([name]) => NAME.test(name));
  return Object.fromEntries(named.toSorted(([a], [b]) => byText(a, b)).slice(0, MAX_MEASUREMENTS));
}

/** What rules compare: what the member reports, and, over it, what others found. */
export function measurementsOf(reported: Measurements, flows: Flows | undefined): Measurements {
  return { ...boundedMeasurements(reported), ...(flows === undefined ? {} : flowMeasurements(flows)) };
}

/** How much more may fail than before: flows are cut short while nodes are replaced. Unit: per mille. */
const MORE_FAILED_FLOWS: Readonly<Record<HealthPhase, number>> = { during: 50, after: 20 };
const MORE_FAILED_LOOKUPS = 50;
/** How many more endpoints may not be ready than before: pods are replaced all the time. */
const MORE_UNREADY = { atLeast: 1, part: 0.1 };

const FLOWS_RULE = "flows to its services succeed";

/**
 * Rules of a check that has none. While nodes are replaced, services must keep endpoints; afterwards, nodes and endpoints must be
 * ready. What is not measured breaks no rule.
 */
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
  {
    name: FLOWS_RULE,
    holds: ({ now, before, phase }) =>
      moreOf("failedFlowsPerMille", now, before) <= MORE_FAILED_FLOWS[phase] &&
      moreOf("failedServices", now, before) <= 0,
  },
  {
    name: "its cluster DNS resolves names",
    holds: ({ now, before }) => moreOf("failedLookupsPerMille", now, before) <= MORE_FAILED_LOOKUPS,
  },
  {
    name: "endpoints become ready",
    holds: ({ now, before, phase }) =>
      phase === "during" ||
      unready(now) - unready(before) <=
        Math.max(MORE_UNREADY.atLeast, MORE_UNREADY.part * (now["endpoints"] ?? 0)),
  },
];

/** What was not measured before is not compared. */
function moreOf(name: string, now: Measurements, before: Measurements): number {
  return (now[name] ?? 0) - (before[name] ?? Infinity);
}

function unready({ endpoints = 0, readyEndpoints = endpoints }: Measurements): number {
  return endpoints - readyEndpoints;
}

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
    if (nowMs >= untilMs) failMember(walk, member, check, { code: UNHEALTHY, message: fault });
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
  { rules, flows: check }: HealthCheck,
  { observed, phase }: { readonly observed: ClusterUpgradeStatus | undefined; readonly phase: HealthPhase },
): string | undefined {
  if (facts.isSilent?.(name) === true) return "the member does not answer";
  if (observed?.measurements === undefined) return "the member reports no measurements";
  const flows = facts.flows?.(name, check);
  const now = measurementsOf(observed.measurements, flows);
  const fault = findFault(rules, { phase, now, before }, facts.compile);
  return fault === FLOWS_RULE && flows !== undefined ? `${fault}: ${describe(flows)}` : fault;
}

function describe({ failedPerMille, failedServices, probers, message }: Flows): string {
  const services = failedServices === 0 ? "" : `, ${failedServices} services do not answer`;
  const example = message === undefined ? "" : `, such as ${message}`;
  return `for the median of ${probers} members ${failedPerMille} of 1000 probes failed${services}${example}`;
}
