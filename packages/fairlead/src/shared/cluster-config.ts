import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { inClusterConfig } from "@fairlead/kube/config/in-cluster.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";

/** The API server of `--kubeconfig`, else that of the pod's cluster. */
export function clusterConfig(
  kubeconfig: string | undefined,
  { log, clock }: Pick<RuntimeDeps, "log" | "clock">,
): Promise<ClusterConfig> {
  if (kubeconfig !== undefined) return loadKubeconfig(kubeconfig, { log, clock });
  return inClusterConfig({ env: process.env, clock });
}
