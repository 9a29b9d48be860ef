import { defined } from "@fairlead/base/defined.ts";
import { CONTROLLER_REVISIONS, type ControllerRevision } from "@fairlead/kube/api/apps/v1/types.ts";
import type { PodTemplateSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { isObject, sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { templateHash } from "./names.ts";

/**
 * The states of a workload's template, kept so that pods of an older one can be made again and that
 * `kubectl rollout undo` can go back. Source: k8s.io/kubernetes, pkg/controller/history.
 */

/** A workload with a history. */
export interface Versioned {
  readonly object: KubeObject;
  readonly template: PodTemplateSpec;
  readonly owner: OwnerReference;
  /** The label of a revision that holds its hash. */
  readonly hashLabel: string;
  readonly historyLimit: number;
  /** The name of the revision that pods had before the present update. */
  readonly currentRevision: string | undefined;
}

export interface RevisionPlan {
  /** What pods had that were not updated yet. */
  readonly current: ControllerRevision;
  /** What the template says now. */
  readonly update: ControllerRevision;
  /** `update` is to be made, or an old state came back and counts as the newest from now on. */
  readonly write: "create" | "renumber" | undefined;
}

export function planRevisions(of: Versioned, revisions: readonly ControllerRevision[]): RevisionPlan {
  const sorted = revisions.toSorted(
    (a, b) => a.revision - b.revision || byText(a.metadata.name, b.metadata.name),
  );
  const data = dataOf(of);
  const last = sorted.at(-1);
  const equal = sorted.findLast((it) => sameJson(it.data, data));
  const number = (last?.revision ?? 0) + 1;
  let update = equal ?? newRevision(of, data, number);
  if (equal !== undefined && equal !== last) update = { ...equal, revision: number };
  const current = sorted.find((it) => it.metadata.name === of.currentRevision) ?? update;
  return {
    current,
    update,
    write: equal === undefined ? "create" : update === equal ? undefined : "renumber",
  };
}

export async function writeRevision(
  client: KubeClient,
  { update, write }: RevisionPlan,
  signal: AbortSignal,
): Promise<void> {
  if (write === "renumber") await client.update(CONTROLLER_REVISIONS, update, { signal });
  if (write !== "create") return;
  try {
    await client.create(CONTROLLER_REVISIONS, update, { signal });
  } catch (error) {
    // The name is a hash of the content: an earlier pass created it, and the cache does not have it yet.
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
}

/** Those that nothing needs any more: beyond the limit the oldest, never one that a pod has or is to have. */
export function planHistory(
  { historyLimit }: Versioned,
  revisions: readonly ControllerRevision[],
  inUse: ReadonlySet<string>,
): ControllerRevision[] {
  const unused = revisions
    .filter((it) => !inUse.has(it.metadata.name))
    .toSorted((a, b) => a.revision - b.revision);
  return unused.slice(0, Math.max(0, unused.length - historyLimit));
}

export function templateOf(revision: ControllerRevision): PodTemplateSpec {
  const spec = isObject(revision.data) ? revision.data["spec"] : undefined;
  const template = isObject(spec) && isObject(spec["template"]) ? spec["template"] : {};
  const { $patch: _, ...rest } = template;
  return rest;
}

/** A strategic merge patch of the workload: to go back to a revision is to send it. */
function dataOf({ template }: Versioned): object {
  return { spec: { template: { ...template, $patch: "replace" } } };
}

/** Annotations go along: `kubernetes.io/change-cause` is what `kubectl rollout history` shows. */
function newRevision(of: Versioned, data: object, number: number): ControllerRevision {
  const { name, namespace = "", annotations } = of.object.metadata;
  const hash = templateHash(of.template);
  return {
    metadata: {
      name: `${name}-${hash}`,
      namespace,
      labels: { ...of.template.metadata?.labels, [of.hashLabel]: hash },
      ...defined({ annotations }),
      ownerReferences: [of.owner],
    },
    data,
    revision: number,
  };
}
