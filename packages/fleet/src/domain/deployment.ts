import type { Deployment } from "@fairlead/kube/api/apps/v1/types.ts";

/** How far a Deployment is rolled out. Pure. */

const NOTHING = { observedGeneration: 0, replicas: 0, updatedReplicas: 0, availableReplicas: 0 };

/** Parts that a Deployment lacks to be rolled out, by the rules of `kubectl rollout status`; undefined: it is rolled out. */
export function lackingOf(deployment: Deployment | undefined): string | undefined {
  if (deployment === undefined) return "it was deleted";
  const { metadata, spec, status } = deployment;
  const wanted = spec?.replicas ?? 1;
  const { observedGeneration, replicas, updatedReplicas, availableReplicas } = { ...NOTHING, ...status };
  if (observedGeneration < (metadata.generation ?? 0))
    return "its latest generation is not observed; check that the cluster's kube-controller-manager runs";
  if (updatedReplicas < wanted) return `${updatedReplicas} of ${wanted} pods are updated`;
  if (replicas > updatedReplicas) return `${replicas - updatedReplicas} old pods are still there`;
  if (availableReplicas < wanted) return `${availableReplicas} of ${wanted} pods are ready`;
  return undefined;
}
