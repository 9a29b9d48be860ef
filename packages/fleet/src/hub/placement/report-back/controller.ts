import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, ReconcileResult } from "@fairlead/kube/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { PLACEMENT_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import type { KindTable } from "#placement/selection/kinds.ts";
import { isMirrored, type ReportedStatus, reportedStatuses } from "#placement/works/report-back.ts";
import { findSnapshot } from "../contents.ts";
import { bindingOf, OF_BINDING, placementOf, type ScopeInformers } from "../informers.ts";
import { bindingsOf, type RolloutParts, scopeOfKey } from "../parts.ts";

export interface ReportBackParts extends RolloutParts {
  /** What the API server serves; undefined while that is not known. */
  readonly kinds: () => Pick<KindTable, "find"> | undefined;
}

/** Until the kinds are known, after the start. Unit: milliseconds. */
const KINDS_MS = 1000;

/** Writes the status of placed objects onto those of the hub, where a placement asks for it. Keys are bindings of both scopes. */
export function createReportBack(parts: ReportBackParts): Controller {
  const { informers, deps } = parts;
  return createController(
    {
      name: "hub-report-back",
      reconcile: (key, signal) => reconcile(parts, key, signal),
      sources: [
        watching(informers.works, ({ after }) =>
          after !== undefined && isOfInterest(after) ? [bindingOf(after)] : [],
        ),
      ],
    },
    deps,
  );
}

function isOfInterest({ spec, status }: Work): boolean {
  const { type, destination } = spec.reportBackStrategy ?? {};
  return type === "Mirror" && destination === "OriginalResource" && status !== undefined;
}

async function reconcile(
  parts: ReportBackParts,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { client, informers, contents } = parts;
  const scope = scopeOfKey(informers, key);
  const binding = bindingsOf(parts, scope).get(key);
  if (binding === undefined || !isReporting(scope, binding)) return;
  const snapshot = findSnapshot(scope, binding.metadata.namespace, binding.spec.resourceSnapshotName);
  if (snapshot === undefined) return;
  const kinds = parts.kinds();
  if (kinds === undefined) return { requeueAfterMs: KINDS_MS };
  const namespace = mailboxOf(binding.spec.targetCluster);
  for (const { metadata } of informers.works.store.byIndex(OF_BINDING, key)) {
    if (metadata.namespace !== namespace) continue;
    // The informer has nothing of objects that are as they should be.
    const work = await client.find(WORKS, objectKey(namespace, metadata.name), { signal });
    const { parts: placed } = await contents.read(scope, snapshot, { signal });
    if (work === undefined) continue;
    for (const it of reportedStatuses(
      work,
      placed.flatMap((part) => part.resources),
    ))
      await write(parts, kinds.find(it.object), it, signal);
  }
}

function isReporting({ placements }: ScopeInformers, binding: ResourceBinding): boolean {
  const placement = placements.store.get(placementOf(binding));
  const isPlaced = !isDeleting(binding) && binding.spec.state === "Bound";
  return isPlaced && placement !== undefined && !isDeleting(placement) && isMirrored(placement.spec);
}

async function write(
  { client, deps }: ReportBackParts,
  of: Resource | undefined,
  { object, status }: ReportedStatus,
  signal: AbortSignal,
): Promise<void> {
  if (of === undefined) return;
  const original = await client.find<KubeObject & { status?: unknown }>(
    of,
    objectKey(object.namespace, object.name),
    { signal },
  );
  if (original === undefined || isDeleting(original) || sameJson(original.status, status)) return;
  try {
    // The whole status: a merge would keep what the member no longer reports.
    const patch = [{ op: "add", path: "/status", value: status }];
    await client.jsonPatch(of, keyOf(original), patch, {
      subresource: "status",
      fieldManager: PLACEMENT_MANAGER,
      signal,
    });
  } catch (error) {
    // Kinds without a status of their own, and what they refuse.
    if (!hasCode(error, "API_NOT_FOUND", "API_INVALID", "API_BAD_REQUEST", "API_FORBIDDEN")) throw error;
    deps.log.debug("the API server does not take the status that a member reports", {
      kind: object.kind,
      name: object.name,
    });
  }
}
