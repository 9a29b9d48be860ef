import { oneLine } from "@fairlead/base/print.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { discoverKinds } from "#placement/selection/discovery.ts";
import type { KindTable } from "#placement/selection/kinds.ts";
import { isNamespace } from "#placement/selection/rules.ts";
import { identifierIn, orderKey } from "#placement/selection/select.ts";
import { changesBetween, nameOf, type ObjectChange, renderChanges } from "./changes.ts";
import { type PlacementName, readPlacement, snapshotAt } from "./read.ts";
import { selectedNow } from "./selected.ts";

/** The objects of an older snapshot, written on the hub again: a new snapshot follows, and a rollout as for any change. */

export interface RollbackQuestion extends PlacementName {
  /** Index of the snapshot. Undefined: the one before the latest. */
  readonly to: number | undefined;
  /** Deletes what is selected now and was not in the snapshot. */
  readonly prune: boolean;
  readonly dryRun: boolean;
}
export interface Rollback {
  readonly to: number;
  readonly dryRun: boolean;
  readonly changes: readonly (ObjectChange & {
    readonly outcome: "done" | "failed" | "left" | "planned";
    readonly message?: string;
  })[];
}

const MANAGER = "fairlead-rollback";

export async function rollbackOnHub(
  hub: KubeClient,
  question: RollbackQuestion,
  signal: AbortSignal,
): Promise<Rollback> {
  const found = await readPlacement(hub, question, signal);
  const { placement, kind, snapshots } = found;
  const index = question.to ?? snapshots.find((it) => !it.isLatest)?.index;
  if (index === undefined)
    throw new FleetError("PRECONDITION_FAILED", `${kind} ${question.name} has no earlier resource snapshot`);
  if (placement.spec.strategy?.type === "External")
    throw new FleetError(
      "PRECONDITION_FAILED",
      `${kind} ${question.name} has strategy External: create a staged update run with resourceSnapshotIndex "${index}" instead`,
    );
  const { objects } = snapshotAt(found, index);
  const now = await selectedNow(hub, placement, signal);
  const changes = changesBetween(now, objects);
  const kinds = await discoverKinds((path) => hub.request("GET", path, undefined, { signal }), undefined);
  const wanted = new Map(objects.map((it) => [orderKey(identifierIn(it)), it]));
  const outcomes: Rollback["changes"][number][] = [];
  for (const change of changes) {
    const act = { hub, kinds, change, wanted: wanted.get(orderKey(change.resource)) };
    outcomes.push({ ...change, ...(await perform(act, question, signal)) });
  }
  return { to: index, dryRun: question.dryRun, changes: outcomes };
}

interface Act {
  readonly hub: KubeClient;
  readonly kinds: KindTable;
  readonly change: ObjectChange;
  readonly wanted: KubeObject | undefined;
}

async function perform(
  act: Act,
  { prune, dryRun }: RollbackQuestion,
  signal: AbortSignal,
): Promise<Pick<Rollback["changes"][number], "message" | "outcome">> {
  const { resource, change } = act.change;
  if (change === "remove" && !prune)
    return { outcome: "left", message: "was added since; --prune deletes it" };
  if (change === "remove" && isNamespace({ group: resource.group ?? "", kind: resource.kind }))
    return { outcome: "left", message: "is a namespace, which is not deleted with all that is in it" };
  const { group = "", version, kind } = resource;
  const of = act.kinds.find({ group, version, kind });
  if (of === undefined) return { outcome: "failed", message: "the hub does not serve its kind" };
  try {
    await write(act, of, { dryRun, signal });
    return { outcome: dryRun ? "planned" : "done" };
  } catch (error) {
    if (signal.aborted) throw error;
    return { outcome: "failed", message: messageOf(error) };
  }
}

async function write(
  { hub, change: { resource }, wanted }: Act,
  of: Resource,
  options: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const key = objectKey(resource.namespace, resource.name);
  if (wanted === undefined) {
    if (!options.dryRun) await hub.delete(of, key, { signal: options.signal });
    return;
  }
  const by = { fieldManager: MANAGER, ...options };
  const live = await hub.find(of, key, { signal: options.signal });
  if (live === undefined) {
    await hub.create(of, wanted, by).catch((error: unknown) => {
      // Into a namespace that only a dry run "made".
      if (!(options.dryRun && hasCode(error, "API_NOT_FOUND"))) throw error;
    });
  } else await hub.update(of, restored(live, wanted), by);
}

/** What the object was, with what belongs to the one that is there now. */
function restored(live: KubeObject, wanted: KubeObject): KubeObject {
  const { uid, resourceVersion, ownerReferences, finalizers, annotations = {} } = live.metadata;
  const applied = annotations[LAST_APPLIED];
  const kept = {
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
    ...(finalizers === undefined ? {} : { finalizers }),
  };
  const own = {
    ...wanted.metadata.annotations,
    ...(applied === undefined ? {} : { [LAST_APPLIED]: applied }),
  };
  const metadata = {
    ...wanted.metadata,
    ...kept,
    ...(Object.keys(own).length === 0 ? {} : { annotations: own }),
  };
  return { ...wanted, metadata, ...("status" in live ? { status: live.status } : {}) };
}
/** kubectl compares the next manifest with it. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

export function renderRollback({ to, dryRun, changes }: Rollback): string {
  if (changes.length === 0) return `The hub has what snapshot ${to} holds.`;
  const notes = changes
    .filter((it) => it.outcome === "failed" || it.outcome === "left")
    .map(
      (it) => `${it.outcome === "failed" ? "Failed" : "Left"}: ${nameOf(it.resource)}: ${it.message ?? ""}`,
    );
  const head = dryRun
    ? `Snapshot ${to} would be restored on the hub (nothing is written):`
    : `Snapshot ${to} restored on the hub:`;
  return [head, renderChanges(changes), ...notes.map(oneLine)].join("\n");
}
