import type { NetworkTerms } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { PolicySettings } from "./compile/draft.ts";

/** What the profile of a cluster says about its policies. */
export function policySettings(
  cluster: string,
  { policyDefaultLocalCluster = true, policyCIDRMatchMode = [] }: NetworkTerms = {},
): PolicySettings {
  return {
    cluster,
    isLocalByDefault: policyDefaultLocalCluster,
    cidrMatchesPods: policyCIDRMatchMode.includes("pods"),
    cidrMatchesNodes: policyCIDRMatchMode.includes("nodes"),
  };
}
