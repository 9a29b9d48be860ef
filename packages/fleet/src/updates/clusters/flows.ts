import { byText, hash32 } from "@fairlead/base/text.ts";
import {
  type FlowCheck,
  type FlowReport,
  type HealthCheck,
  MAX_PROBERS,
  MAX_PROBES,
  type Measurements,
  type MemberUpdateStatus,
  type ProbeRequest,
  type UpdateRun,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { hasEnded } from "./needs.ts";

/**
 * Failed flows: other members probe the services that a member exports, and report to the hub. No report is trusted: the hub
 * chooses who probes, and takes the median of what they say.
 */

const PROBERS = 5;
const MIN_PROBERS = 2;

/** A report of fewer probes says nothing yet. */
const MIN_TRIED = 20;
/** So few failures are chance. */
const MIN_FAILED = 3;

/** How long the services of a member are probed before its upgrade, for comparison. Unit: milliseconds. */
export const PROBED_BEFORE_MS = 30_000;

/** What is known of the flows to one member. */
export interface Flows {
  /** Members that were asked and have reported enough. */
  readonly probers: number;
  /** Whether all that were asked found nothing that they could probe. */
  readonly isIdle: boolean;
  /** Of the median prober. 0: not judged. */
  readonly tried: number;
  readonly failedPerMille: number;
  /** Services of which most probes fail, for the median prober. */
  readonly failedServices: number;
  /** An example. */
  readonly message: string | undefined;
}

export function probersOf({ flows = {} }: HealthCheck): number {
  return flows.probers ?? PROBERS;
}

/** @param reports - One for each member that was asked; undefined: it has not reported yet. */
function judgeFlows(
  reports: readonly (FlowReport | undefined)[],
  { minProbers = MIN_PROBERS }: FlowCheck = {},
): Flows {
  const counted = reports.flatMap((it) => (it === undefined || it.tried < MIN_TRIED ? [] : [it]));
  const isIdle = reports.every((it) => it !== undefined && it.targets === 0);
  const isJudged = counted.length >= minProbers;
  const none: Counts = { tried: 0, failed: 0 };
  const median = (isJudged ? medianBy(counted, perMille) : undefined) ?? none;
  const services = (isJudged ? medianBy(counted, failedServicesOf) : undefined) ?? none;
  return {
    probers: counted.length,
    isIdle,
    tried: median.tried,
    failedPerMille: perMille(median),
    failedServices: failedServicesOf(services),
    message: median.message ?? services.message,
  };
}

/** The lower one of an even number: more than half of them say at least so. */
function medianBy<T>(all: readonly T[], value: (it: T) => number): T | undefined {
  return all.toSorted((a, b) => value(a) - value(b))[Math.floor((all.length - 1) / 2)];
}

type Counts = Pick<FlowReport, "tried" | "failed" | "failedServices" | "message">;

function failedServicesOf(it: Counts): number {
  return it.failedServices ?? 0;
}

function perMille({ tried, failed }: Counts): number {
  return failed < MIN_FAILED ? 0 : Math.round((1000 * Math.min(failed, tried)) / tried);
}

/** As rules of health checks name them. */
export function flowMeasurements({ probers, tried, failedPerMille, failedServices }: Flows): Measurements {
  return { probers, flows: tried, failedFlowsPerMille: failedPerMille, failedServices };
}

/** What the choice of probers is made from. */
export interface ProbeFleet {
  readonly members: Iterable<string>;
  /** Whether the agent of a member does not answer. */
  readonly isSilent: (member: string) => boolean;
  /** The report of a prober about a request. */
  readonly report: (prober: string, request: ProbeRequest) => FlowReport | undefined;
  readonly nowMs: number;
}

/** Requests by the member that probes. */
export type ProbePlan = ReadonlyMap<string, readonly ProbeRequest[]>;

/** Chooses probers for all members that runs want probed: the same ones as before, as long as they can. */
export function planProbes(runs: readonly UpdateRun[], fleet: ProbeFleet): ProbePlan {
  const probed = runs.flatMap(probedIn);
  const busy = new Set(runs.flatMap(runningIn));
  const candidates = [...fleet.members].filter((it) => !busy.has(it) && !fleet.isSilent(it));
  const plan = new Map<string, ProbeRequest[]>();
  for (const { request, probers } of probed)
    for (const name of chooseProbers(candidates, request, { probers, fleet })) {
      const requests = plan.get(name) ?? [];
      plan.set(name, requests);
      if (requests.length < MAX_PROBES && requests.every((it) => it.cluster !== request.cluster))
        requests.push(request);
    }
  for (const requests of plan.values()) requests.sort((a, b) => byText(a.cluster, b.cluster));
  return plan;
}

/** What is known of the flows to each member, from the reports of those that were asked. */
export function flowsIn(
  plan: ProbePlan,
  report: ProbeFleet["report"],
): (member: string, check: FlowCheck | undefined) => Flows {
  const asked = Map.groupBy(
    [...plan].flatMap(([prober, requests]) => requests.map((request) => ({ prober, request }))),
    (it) => it.request.cluster,
  );
  return (member, check) =>
    judgeFlows(
      (asked.get(member) ?? []).map(({ prober, request }) => report(prober, request)),
      check,
    );
}

/** Those that find nothing to probe stay asked, and others are asked in addition. */
function chooseProbers(
  candidates: readonly string[],
  request: ProbeRequest,
  { probers, fleet }: { readonly probers: number; readonly fleet: ProbeFleet },
): string[] {
  const isLate = fleet.nowMs >= Date.parse(request.since) + PROBED_BEFORE_MS / 2;
  const chosen: string[] = [];
  let useful = 0;
  for (const { name } of firstByRank(candidates, request.cluster)) {
    if (useful >= probers) break;
    chosen.push(name);
    const report = fleet.report(name, request);
    if (report === undefined ? !isLate : report.targets > 0) useful += 1;
  }
  return chosen;
}

interface Ranked {
  readonly name: string;
  readonly rank: number;
}

/** Those that come first in an order of the probed cluster's own, in time linear in the number of candidates. */
function firstByRank(candidates: readonly string[], cluster: string): readonly Ranked[] {
  const first: Ranked[] = [];
  for (const name of candidates) {
    const it = { name, rank: hash32(`${cluster} ${name}`) };
    const last = first.at(-1);
    const isFull = first.length >= MAX_PROBERS;
    if (name === cluster || (isFull && last !== undefined && byRank(last, it) < 0)) continue;
    if (isFull) first.pop();
    const at = first.findIndex((other) => byRank(it, other) < 0);
    first.splice(at < 0 ? first.length : at, 0, it);
  }
  return first;
}

function byRank(a: Ranked, b: Ranked): number {
  return a.rank - b.rank || byText(a.name, b.name);
}

interface Probed {
  readonly request: ProbeRequest;
  readonly probers: number;
}

/** The members of a run that are to be probed. */
function probedIn(run: UpdateRun): Probed[] {
  const { status } = run;
  if (status === undefined || hasEnded(run)) return [];
  return status.stages.flatMap((stage) => {
    const check = status.strategy?.stages.find((it) => it.name === stage.name)?.health;
    if (check === undefined) return [];
    const paths = check.flows?.paths;
    return stage.groups.flatMap(({ members }) =>
      members.flatMap(({ name: cluster, probedSince: since, rollback }) =>
        since === undefined || rollback !== undefined
          ? []
          : [
              {
                request: { cluster, since, ...(paths === undefined ? {} : { paths }) },
                probers: probersOf(check),
              },
            ],
      ),
    );
  });
}

function runningIn(run: UpdateRun): string[] {
  const members: MemberUpdateStatus[] = hasEnded(run)
    ? []
    : (run.status?.stages.flatMap((stage) => stage.groups.flatMap((it) => it.members)) ?? []);
  return members.filter((it) => it.status.state === "Running").map((it) => it.name);
}
