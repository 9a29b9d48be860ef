import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { withinPolicy } from "../budget.ts";
import type { Compilation } from "../model.ts";
import { compileCiliumPolicy } from "./cilium.ts";
import { compileClusterPolicy } from "./cluster-network-policy.ts";
import type { PolicyObjects, PolicySettings } from "./draft.ts";
import { compileNetworkPolicy } from "./network-policy.ts";

export const POLICY_KINDS = [
  "NetworkPolicy",
  "CiliumNetworkPolicy",
  "CiliumClusterwideNetworkPolicy",
  "ClusterNetworkPolicy",
] as const;
export type PolicyKind = (typeof POLICY_KINDS)[number];

/** Compiles a policy of any kind. Never throws, whatever the object holds, and costs what the object is long. */
export function compilePolicy(
  kind: PolicyKind,
  policy: KubeObject,
  settings: PolicySettings,
  objects: PolicyObjects,
): Compilation {
  return withinPolicy(compileKind(kind, policy, settings, objects));
}

function compileKind(
  kind: PolicyKind,
  policy: KubeObject,
  settings: PolicySettings,
  objects: PolicyObjects,
): Compilation {
  switch (kind) {
    case "NetworkPolicy":
      return compileNetworkPolicy(policy, settings);
    case "CiliumNetworkPolicy":
    case "CiliumClusterwideNetworkPolicy":
      return compileCiliumPolicy(policy, settings, objects);
    case "ClusterNetworkPolicy":
      return compileClusterPolicy(policy, settings);
    default:
      return kind satisfies never;
  }
}
