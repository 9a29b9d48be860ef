import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { forbiddenSysctl } from "./refusals.ts";
import { inUnits, podRequests } from "./requests.ts";
import type { Ended } from "./status.ts";

/** Whether a node takes a pod that was bound to it. Pure. Source: pkg/kubelet/lifecycle/predicate.go. */

export interface AdmissionInput {
  readonly pod: Pod;
  /** Pods of the node that are not over. */
  readonly others: readonly Pod[];
  readonly allocatable: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
}

/** Why the node refuses the pod, which fails with it; undefined where it takes it. */
export function refusalOf(input: AdmissionInput): Ended | undefined {
  const { pod, others, allocatable, labels } = input;
  const sysctl = forbiddenSysctl(pod);
  if (sysctl !== undefined)
    return rejected("SysctlForbidden", `forbidden sysctl: "${sysctl}" not allowlisted`);
  const selector = Object.entries(pod.spec?.nodeSelector ?? {});
  if (selector.some(([key, value]) => labels[key] !== value))
    return rejected(
      "NodeAffinity",
      "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    );
  const capacity = Number(allocatable["pods"] ?? "0");
  if (others.length + 1 > capacity) return outOf("pods", { requested: 1, used: others.length, capacity });
  for (const [resource, requested] of podRequests(pod)) {
    const used = others.reduce((sum, it) => sum + (podRequests(it).get(resource) ?? 0), 0);
    const offered = inUnits(resource, allocatable[resource]);
    if (requested > 0 && requested > offered - used)
      return outOf(resource, { requested, used, capacity: offered });
  }
  return undefined;
}

function outOf(
  resource: string,
  {
    requested,
    used,
    capacity,
  }: { readonly requested: number; readonly used: number; readonly capacity: number },
): Ended {
  const numbers = `requested: ${requested}, used: ${used}, capacity: ${capacity}`;
  return rejected(`OutOf${resource}`, `Node didn't have enough resource: ${resource}, ${numbers}`);
}

function rejected(reason: string, why: string): Ended {
  return { reason, message: `Pod was rejected: ${why}` };
}
