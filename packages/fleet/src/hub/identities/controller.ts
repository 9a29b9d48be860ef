import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  ACCEPTED_NODE_RANGES,
  ACCEPTED_POD_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  POD_RANGES,
} from "#api/fairlead.dev/names.ts";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentitySlice,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { clusterOfMailbox, isViewNamespace, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { keyOf, type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Change, Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { ageCondition, identityAge } from "#domain/identity-age.ts";
import { changeOf } from "#domain/identity-change.ts";
import { isHeartbeat } from "#domain/member-change.ts";
import type { HubInformers } from "../informers.ts";
import { changedAudience, isMemberChanged } from "../services/controller.ts";
import { changedMembers, isClaimChanged } from "../memberships.ts";
import { hasView } from "../view.ts";
import { shownName } from "./informers.ts";
import { labelsOf } from "./plan.ts";
import { IdentityRegistry } from "./registry.ts";
import { Verdicts } from "./verdicts.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly deps: RuntimeDeps;
}

/** Of keys: what a member publishes, and what the hub reports to it. Others are names of slices in views. */
const MEMBERS = "members";

/** Keys of what many changes make due once. */
const DEMANDS = objectKey("all", "demands");
const EVERYTHING = objectKey("all", "everything");

/**
 * IdentitySlices of mailboxes to the view of their member, as far as other members need them; and to each member what is
 * needed of it, and what was refused. A change of one pod is one write here, however many members read it.
 */
export function createIdentities({ client, informers, deps }: Parts): Controller {
  const registry = new IdentityRegistry(informers, () => deps.clock.now());
  const verdicts = new Verdicts((it) => registry.plan(it).problem);
  const memberKey = (cluster: string): ObjectKey => objectKey(MEMBERS, cluster);
  const keysOf = (cluster: string): ObjectKey[] => [
    memberKey(cluster),
    ...registry.slicesOf(cluster).map(shownKey),
  ];
  const all = (): ObjectKey[] => [
    ...[...informers.identityDemands.store.list()].map((it) => memberKey(it.metadata.name)),
    ...[...informers.identitySlices.store.list()].map(shownKey),
  ];
  const allAgain = (): ObjectKey[] => {
    registry.forgetAll();
    return [EVERYTHING];
  };
  const enqueue = (keys: Iterable<ObjectKey>): void => {
    for (const it of keys) controller.enqueue(it);
  };
  const report = async (cluster: string, signal: AbortSignal): Promise<ReconcileResult> => {
    const age = registry.ageOf(cluster);
    const again = defined({ requeueAfterMs: age.forgottenInMs });
    if (age.isForgotten) for (const it of registry.slicesOf(cluster)) controller.enqueue(shownKey(it));
    const demand = informers.identityDemands.store.get(objectKey(mailboxOf(cluster), cluster));
    if (demand === undefined || isDeleting(demand)) return again;
    await writeConditions(client, IDENTITY_DEMANDS, {
      object: demand,
      own: new Set(["Accepted", "Current"]),
      next: [verdicts.conditionOf(registry.slicesOf(cluster)), ageCondition(age)],
      rest: { wanted: registry.wantedOf(cluster).wants },
      fieldManager: HUB_MANAGER,
      clock: deps.clock,
      signal,
    });
    return again;
  };
  /** @returns Of a slice: the view that it is to be in, and what of it. */
  const decide = (source: IdentitySlice, cluster: string) => {
    const plan = registry.plan(source);
    const view = informers.viewOf(cluster);
    if (verdicts.note(source, plan.problem)) controller.enqueue(memberKey(cluster));
    return plan.spec !== undefined && hasView(informers, view) ? { view, spec: plan.spec } : undefined;
  };
  const show = async (name: string, signal: AbortSignal): Promise<void> => {
    const named = [...informers.identitySlices.store.byIndex("shown", name)];
    const source = named.find((it) => clusterOfMailbox(it.metadata.namespace) !== undefined);
    const wanted =
      source === undefined ? undefined : decide(source, clusterOfMailbox(source.metadata.namespace) ?? "");
    if (wanted !== undefined) {
      const current = informers.identitySlices.store.get(objectKey(wanted.view, name));
      const isSame = sameJson(current?.spec, wanted.spec);
      const change = isSame ? current?.change : changeOf(current?.spec, wanted.spec);
      await applyIfChanged(client, IDENTITY_SLICES, {
        current,
        desired: {
          metadata: { namespace: wanted.view, name, labels: labelsOf(wanted.spec) },
          spec: wanted.spec,
          ...defined({ change }),
        },
        fieldManager: HUB_MANAGER,
        returns: "metadata",
        signal,
      });
    }
    const shown = named.filter((it) => isViewNamespace(it.metadata.namespace));
    for (const it of shown)
      if (it.metadata.namespace !== wanted?.view) await client.delete(IDENTITY_SLICES, keyOf(it), { signal });
  };
  const controller: Controller = createController(
    {
      name: "identities",
      async reconcile(key, signal) {
        if (key === EVERYTHING) return enqueue(all());
        if (key === DEMANDS) return enqueue(registry.takeChanged().flatMap(keysOf));
        const { namespace, name } = splitKey(key);
        return namespace === MEMBERS ? report(name, signal) : show(name, signal);
      },
      concurrency: 16,
      sources: [
        watching(informers.identitySlices, ({ before, after }) => {
          if (before !== undefined && after === undefined && verdicts.forget(before))
            controller.enqueue(memberKey(clusterOfMailbox(before.metadata.namespace) ?? ""));
          return [before, after].flatMap((it) => (it === undefined ? [] : [shownKey(it)]));
        }),
        watching(informers.identityDemands, ({ before, after }) => {
          const own = [before, after].flatMap((it) =>
            it === undefined ? [] : [memberKey(it.metadata.name)],
          );
          if (sameJson(before?.spec, after?.spec)) return own;
          for (const it of [before, after]) if (it !== undefined) registry.forgetDemand(it.metadata.name);
          return [...own, DEMANDS];
        }),
        // Silent members are forgotten after some time.
        watching(informers.members, (change) => (isHealthChanged(change) ? keysOf(change.key) : [])),
        watchingChanges(informers.members, (change) =>
          isMemberChanged(change) || isClaimChanged(change) || areRangesChanged(change) ? allAgain() : [],
        ),
        watchingChanges(informers.blocks, allAgain),
        watchingChanges(informers.profiles, (change) =>
          changedMembers(change).length > 0 ? allAgain() : [],
        ),
        watchingChanges(informers.namespaces, (change) =>
          isViewNamespace(change.key) || changedAudience(change).length > 0 ? [EVERYTHING] : [],
        ),
      ],
    },
    deps,
  );
  return controller;
}

function shownKey(it: IdentitySlice): ObjectKey {
  return objectKey(undefined, shownName(it));
}

function isHealthChanged({ before, after }: Change<MemberCluster>): boolean {
  return identityAge(before, 0).silentSinceMs !== identityAge(after, 0).silentSinceMs;
}

function areRangesChanged(change: Change<MemberCluster>): boolean {
  if (isHeartbeat(change)) return false;
  const { before, after } = change;
  const of = (it: MemberCluster | undefined): unknown =>
    [GRANTED_CIDRS_ANNOTATION, POD_RANGES, ACCEPTED_POD_RANGES, ACCEPTED_NODE_RANGES].map(
      (name) => it?.metadata.annotations?.[name],
    );
  return !sameJson(of(before), of(after));
}
