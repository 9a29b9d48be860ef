import { defined } from "@fairlead/base/defined.ts";
import type { Deployment, ReplicaSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { PodTemplateSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { templateHash } from "../names.ts";

/** Which ReplicaSet stands for which state of a Deployment's template. Source: pkg/controller/deployment/util. */

const HASH_LABEL = "pod-template-hash";
export const REVISION = "deployment.kubernetes.io/revision";
export const DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas";
export const MAX_REPLICAS = "deployment.kubernetes.io/max-replicas";
/** Not copied from a Deployment to its ReplicaSets: they say something of the one object only. */
const OWN_ANNOTATIONS = new Set([
  "kubectl.kubernetes.io/last-applied-configuration",
  "deprecated.deployment.rollback.to",
  REVISION,
  DESIRED_REPLICAS,
  MAX_REPLICAS,
]);

export function revisionOf(replicaSet: ReplicaSet): number {
  return Number(replicaSet.metadata.annotations?.[REVISION] ?? 0) || 0;
}

/** The set of the Deployment's present template; of several the oldest, as upstream has it. */
export function findNewSet(deployment: Deployment, sets: readonly ReplicaSet[]): ReplicaSet | undefined {
  const template = deployment.spec?.template;
  return sets
    .filter((set) => sameTemplate(set.spec?.template, template))
    .toSorted(
      (a, b) =>
        byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") ||
        byText(a.metadata.name, b.metadata.name),
    )[0];
}

function sameTemplate(
  ofSet: PodTemplateSpec | undefined,
  ofDeployment: PodTemplateSpec | undefined,
): boolean {
  const { [HASH_LABEL]: _, ...labels } = ofSet?.metadata?.labels ?? {};
  return sameJson({ ...ofSet, metadata: { ...ofSet?.metadata, labels } }, withLabels(ofDeployment));
}

function withLabels(template: PodTemplateSpec | undefined): object {
  const { [HASH_LABEL]: _, ...labels } = template?.metadata?.labels ?? {};
  return { ...template, metadata: { ...template?.metadata, labels } };
}

export interface SetAnnotations {
  readonly revision: number;
  readonly desiredReplicas: number;
  readonly maxReplicas: number;
}

/** The annotations of the set, with those of the Deployment and of the rollout. */
export function setAnnotations(
  deployment: Deployment,
  present: Readonly<Record<string, string>>,
  notes: SetAnnotations,
): Record<string, string> {
  const passed = Object.entries(deployment.metadata.annotations ?? {}).filter(
    ([key]) => !OWN_ANNOTATIONS.has(key),
  );
  return {
    ...present,
    ...Object.fromEntries(passed),
    [REVISION]: String(notes.revision),
    [DESIRED_REPLICAS]: String(notes.desiredReplicas),
    [MAX_REPLICAS]: String(notes.maxReplicas),
  };
}

export function newSet(deployment: Deployment, replicas: number, notes: SetAnnotations): ReplicaSet {
  const { name, namespace = "", uid = "" } = deployment.metadata;
  const { template = {}, selector = {}, minReadySeconds } = deployment.spec ?? {};
  const hash = templateHash(template);
  const labels = { ...template.metadata?.labels, [HASH_LABEL]: hash };
  const owner = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
  return {
    metadata: {
      name: `${name}-${hash}`,
      namespace,
      labels,
      annotations: setAnnotations(deployment, {}, notes),
      ownerReferences: [owner],
    },
    spec: {
      replicas,
      selector: { ...selector, matchLabels: { ...selector.matchLabels, [HASH_LABEL]: hash } },
      template: { ...template, metadata: { ...template.metadata, labels } },
      ...defined({ minReadySeconds }),
    },
  };
}
