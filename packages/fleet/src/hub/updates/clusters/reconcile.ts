import { firstUid } from "#domain/first-uid.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { UPDATE_RUNS, type UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { ownHubSupport } from "#domain/kubernetes-support.ts";
import { advance } from "#updates/clusters/advance.ts";
import { type UpdateMember, updateMember } from "#updates/clusters/fleet.ts";
import { flowsIn, planProbes } from "#updates/clusters/flows.ts";
import { hasEnded, measures, membersToObserve, operationsOf } from "#updates/clusters/needs.ts";
import type { CompileRule } from "#updates/clusters/judge.ts";
import type { Observed } from "#updates/clusters/walk.ts";
import { ClockJumps } from "../../clock-jumps.ts";
import type { HubInformers } from "../../informers.ts";
import { removeGates, writeGates } from "./gates.ts";
import { runOf } from "./informers.ts";
import { watchingUpdateMembers } from "./member-changes.ts";
import { Upgraders } from "./upgraders.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
  /** For rules of health checks. Undefined: they cannot be evaluated. */
  readonly compile: CompileRule | undefined;
}

/**
 * Update runs of clusters. A pass decides, writes the decision into the status of the run, and then does what the status
 * says: a hub that is killed between any two steps continues with the next pass.
 */
export function createUpdateRuns(parts: Parts): Controller {
  const { client, informers, deps } = parts;
  const upgraders = new Upgraders({ client, deps }, informers);
  const jumps = new ClockJumps(clockOfServer(client, deps.clock));
  const keyOfRun = (name: string): ObjectKey => objectKey(undefined, name);
  const unfinished = (): ObjectKey[] =>
    [...informers.updateRuns.store.list()]
      .filter((it) => !hasEnded(it))
      .map((it) => keyOfRun(it.metadata.name));
  return createController(
    {
      name: "updaterun",
      reconcile: (key, signal) => reconcile({ ...parts, jumps }, upgraders, key, signal),
      // Two runs must not begin upgrades of one member.
      concurrency: 1,
      sources: [
        watching(informers.updateRuns),
        watching(informers.updateGates, ({ before, after }) =>
          [before, after].flatMap((it) => (it === undefined ? [] : [keyOfRun(runOf(it))])),
        ),
        watching(informers.updateStrategies, unfinished),
        watching(informers.releaseCatalogs, unfinished),
        watching(informers.clusterUpgrades, unfinished),
        // All name the same members that the hub has lost.
        watchingChanges(informers.internalMembers, ({ before, after }) =>
          sameJson(before?.spec.suspects, after?.spec.suspects) ? [] : unfinished(),
        ),
        ...watchingUpdateMembers(informers, unfinished),
      ],
    },
    deps,
  );
}

async function reconcile(
  parts: Parts & { readonly jumps: ClockJumps },
  upgraders: Upgraders,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { client, informers, events, deps, jumps } = parts;
  const run = informers.updateRuns.store.get(key);
  const uid = run === undefined ? undefined : firstUid(run);
  await removeGates(client, informers, { name: splitKey(key).name, uid }, signal);
  const nowMs = clockOfServer(client, deps.clock).now();
  const members = membersOf(informers);
  const isSilent = silentIn(informers);
  const runs = [...informers.updateRuns.store.list()].filter((it) => !isDeleting(it));
  const { report } = upgraders;
  const plan = planProbes(runs, { members: members.keys(), isSilent, report, nowMs });
  await upgraders.probe(plan, signal);
  if (run === undefined || isDeleting(run)) return jumps.forget(key);
  const look = jumps.look(key);
  const observed = await observe(run, members, upgraders, signal);
  const named = informers.updateStrategies.store.get(objectKey(undefined, run.spec.updateStrategyName ?? ""));
  const { status, againAtMs } = advance(run, named?.spec, {
    nowMs,
    jumpMs: look.jumpMs,
    members,
    observe: (name) => observed.get(name),
    gateState: (id) => informers.updateGates.store.get(objectKey(undefined, id))?.spec.state,
    catalogs: [...informers.releaseCatalogs.store.list()],
    hub: ownHubSupport(),
    isSilent,
    flows: flowsIn(plan, report),
    compile: parts.compile,
  });
  const next: UpdateRun = { ...run, status };
  if (!sameJson(status, run.status)) {
    // Replaces the status that was read, or nothing.
    await client.update(UPDATE_RUNS, next, { subresource: "status", fieldManager: HUB_MANAGER, signal });
    if (hasEnded(next) && !hasEnded(run)) recordEnd(events, next);
  }
  look.settle();
  const waitMs = await carryOut(parts, upgraders, { run: next, members }, signal);
  const soonestMs = Math.min(waitMs, againAtMs === undefined ? Infinity : againAtMs - nowMs);
  return soonestMs === Infinity ? {} : { requeueAfterMs: Math.min(MAX_WAIT_MS, soonestMs) };
}

/** Does what the status of a run says. @returns After how long an engine is to be looked at again. */
async function carryOut(
  { client, informers }: Parts,
  upgraders: Upgraders,
  { run, members }: { readonly run: UpdateRun; readonly members: ReadonlyMap<string, UpdateMember> },
  signal: AbortSignal,
): Promise<number> {
  await writeGates(client, informers, run, signal);
  if (hasEnded(run))
    for (const it of membersOfRun(run)) {
      upgraders.forget(it);
      if (measures(run)) await upgraders.rest(it, signal);
    }
  let waitMs = Infinity;
  for (const [name, operation] of operationsOf(run))
    waitMs = Math.min(waitMs, await upgraders.start(members.get(name), operation, signal));
  return waitMs;
}

async function observe(
  run: UpdateRun,
  members: ReadonlyMap<string, UpdateMember>,
  upgraders: Upgraders,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Observed | undefined>> {
  const operations = operationsOf(run);
  const measure = measures(run);
  const read = async (name: string) =>
    [
      name,
      await upgraders.observe(
        members.get(name),
        { ...defined({ operation: operations.get(name) }), measure },
        signal,
      ),
    ] as const;
  return new Map(await Promise.all(membersToObserve(run).map(read)));
}

/** Members whose leases on the hub have expired. */
function silentIn({ internalMembers }: HubInformers): (member: string) => boolean {
  const suspects = [...internalMembers.store.list()].flatMap((it) => it.spec.suspects ?? []);
  const names = new Set(suspects.map((it) => it.cluster));
  return (name) => names.has(name);
}

function membersOfRun({ status }: UpdateRun): string[] {
  const groups = status?.stages.flatMap((it) => it.groups) ?? [];
  return groups.flatMap((it) => it.members.map((member) => member.name));
}

/** Gates with a scheduled start and maintenance windows go by the time of day, which may be set in that time. */
const MAX_WAIT_MS = 600_000;

function membersOf({ members, memberships }: HubInformers): ReadonlyMap<string, UpdateMember> {
  return new Map(
    [...members.store.list()]
      .filter((it) => !isDeleting(it))
      .map((it) => [it.metadata.name, updateMember(it, memberships.of(it.metadata.name))]),
  );
}

function recordEnd(events: EventRecorder, run: UpdateRun): void {
  const { outcome = "", failureCount = 0, counts } = run.status ?? {};
  events.record(UPDATE_RUNS, run, {
    type: outcome === "Succeeded" ? "Normal" : "Warning",
    reason: outcome,
    message: `${counts?.Completed ?? 0} members were upgraded, ${failureCount} failed, ${counts?.Skipped ?? 0} were skipped`,
  });
}
