import { STATEFUL_SETS, type StatefulSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod, PodTemplateSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { ownerReferenceTo } from "../templates.ts";

/** What stays the same however often a pod is made again: its name, and from that its name in the DNS. */

const POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL = "apps.kubernetes.io/pod-index";
const REVISION_LABEL = "controller-revision-hash";

/** The place of a pod in its set; undefined if its name is not of the set's making. */
export function ordinalOf(set: StatefulSet, pod: Pod): number | undefined {
  const prefix = `${set.metadata.name}-`;
  const { name } = pod.metadata;
  const digits = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  return /^(0|[1-9]\d{0,9})$/v.test(digits) ? Number(digits) : undefined;
}

/** The name of the revision that the pod was made of. */
export function revisionOf(pod: Pod): string {
  return pod.metadata.labels?.[REVISION_LABEL] ?? "";
}

/** @param revision - The name of the revision that `template` is of. */
export function newPod(set: StatefulSet, ordinal: number, template: PodTemplateSpec, revision: string): Pod {
  const { name: setName, namespace = "" } = set.metadata;
  const name = `${setName}-${ordinal}`;
  const { labels = {}, annotations = {}, finalizers = [] } = template.metadata ?? {};
  return {
    metadata: {
      name,
      generateName: `${setName}-`,
      namespace,
      labels: {
        ...labels,
        [POD_NAME_LABEL]: name,
        [INDEX_LABEL]: String(ordinal),
        [REVISION_LABEL]: revision,
      },
      annotations,
      ownerReferences: [ownerReferenceTo(STATEFUL_SETS, set)],
      ...(finalizers.length === 0 ? {} : { finalizers }),
    },
    spec: {
      containers: [],
      ...template.spec,
      hostname: name,
      ...(set.spec?.serviceName === undefined ? {} : { subdomain: set.spec.serviceName }),
    },
  };
}
