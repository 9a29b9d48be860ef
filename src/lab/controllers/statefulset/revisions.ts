import type { ControllerRevision, StatefulSet } from "#api/apps/v1/types.ts";
import type { PodTemplateSpec } from "#api/core/v1/types.ts";
import { isObject, sameJson } from "#base/json.ts";
import { byText } from "#base/text.ts";
import { templateHash } from "../names.ts";
import { ownerReference } from "./identity.ts";

/**
 * The states of a StatefulSet's template, kept so that pods of an older one can be made again and that
 * `kubectl rollout undo` can go back. Source: k8s.io/kubernetes, pkg/controller/history and statefulset/stateful_set_utils.go.
 */

const HASH_LABEL = "controller.kubernetes.io/hash";

export interface RevisionPlan {
  /** What pods had that were not updated yet. */
  readonly current: ControllerRevision;
  /** What the template says now. */
  readonly update: ControllerRevision;
  /** `update` is to be made, or an old state came back and counts as the newest from now on. */
  readonly write: "create" | "renumber" | undefined;
}

export function planRevisions(set: StatefulSet, revisions: readonly ControllerRevision[]): RevisionPlan {
  const sorted = revisions.toSorted(
    (a, b) => a.revision - b.revision || byText(a.metadata.name, b.metadata.name),
  );
  const data = dataOf(set);
  const last = sorted.at(-1);
  const equal = sorted.findLast((it) => sameJson(it.data, data));
  const number = (last?.revision ?? 0) + 1;
  let update = equal ?? newRevision(set, data, number);
  if (equal !== undefined && equal !== last) update = { ...equal, revision: number };
  const current = sorted.find((it) => it.metadata.name === set.status?.currentRevision) ?? update;
  return {
    current,
    update,
    write: equal === undefined ? "create" : update === equal ? undefined : "renumber",
  };
}

/** Those that nothing needs any more: beyond the limit the oldest, never one that a pod has or is to have. */
export function planHistory(
  set: StatefulSet,
  revisions: readonly ControllerRevision[],
  inUse: ReadonlySet<string>,
): ControllerRevision[] {
  const unused = revisions
    .filter((it) => !inUse.has(it.metadata.name))
    .toSorted((a, b) => a.revision - b.revision);
  return unused.slice(0, Math.max(0, unused.length - (set.spec?.revisionHistoryLimit ?? 10)));
}

export function templateOf(revision: ControllerRevision): PodTemplateSpec {
  const spec = isObject(revision.data) ? revision.data["spec"] : undefined;
  const template = isObject(spec) && isObject(spec["template"]) ? spec["template"] : {};
  const { $patch: _, ...rest } = template;
  return rest;
}

/** A strategic merge patch of the StatefulSet: to go back to a revision is to send it. */
function dataOf(set: StatefulSet): object {
  return { spec: { template: { ...set.spec?.template, $patch: "replace" } } };
}

function newRevision(set: StatefulSet, data: object, number: number): ControllerRevision {
  const { name, namespace = "" } = set.metadata;
  const hash = templateHash(set.spec?.template ?? {});
  return {
    metadata: {
      name: `${name}-${hash}`,
      namespace,
      labels: { ...set.spec?.template.metadata?.labels, [HASH_LABEL]: hash },
      ownerReferences: [ownerReference(set)],
    },
    data,
    revision: number,
  };
}
