import type { ClusterConfig } from "#kube/config.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { inClusterConfig } from "#kube/in-cluster.ts";
import { loadKubeconfig } from "#kube/kubeconfig.ts";

/** The API server that a program is told of by `--kubeconfig`, else that of the pod it runs in. */
export function clusterConfig(
  kubeconfig: string | undefined,
  { log, clock }: Pick<RuntimeDeps, "log" | "clock">,
): Promise<ClusterConfig> {
  if (kubeconfig !== undefined) return loadKubeconfig(kubeconfig, { log, clock });
  return inClusterConfig({ env: process.env, clock });
}
