import { isObject } from "@fairlead/base/json.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { ClusterUpgradeStatus, Measurements, UpgradeNode } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { serviceOfLocalSlice } from "../informers.ts";

/** Labels of a Node that name its image, the first that is there. */
const IMAGE_LABELS = ["fairlead.dev/node-image", "kubernetes.azure.com/node-image-version"] as const;

/** Reads the versions of this cluster and its nodes. */
export async function readCluster(
  local: KubeClient,
  nodes: Iterable<Node>,
  signal: AbortSignal,
): Promise<Omit<ClusterUpgradeStatus, "operation">> {
  const answer = await local.request("GET", "/version", undefined, { signal });
  const text = isObject(answer) ? answer["gitVersion"] : undefined;
  return {
    ...(typeof text === "string" ? { kubernetesVersion: withoutPrefix(text) } : {}),
    nodes: [...nodes].map(describeNode).toSorted((a, b) => byNaturalText(a.name, b.name)),
  };
}

function describeNode({ metadata: { name, labels }, status }: Node): UpgradeNode {
  const image = IMAGE_LABELS.map((it) => labels?.[it]).find((it) => it !== undefined);
  return {
    name,
    kubernetesVersion: withoutPrefix(status?.nodeInfo?.["kubeletVersion"] ?? ""),
    ...(image === undefined ? {} : { image }),
    ready: isConditionTrue(status?.conditions, "Ready"),
  };
}

function withoutPrefix(version: string): string {
  return version.replace(/^v/, "");
}

/** What health checks of update runs read: nodes, and the endpoints of the Services of this cluster. */
export function measure(nodes: readonly UpgradeNode[], slices: Iterable<EndpointSlice>): Measurements {
  const ready = new Map<string, number>();
  let endpoints = 0;
  for (const slice of slices)
    for (const service of serviceOfLocalSlice(slice)) {
      const all = slice.endpoints ?? [];
      endpoints += all.length;
      const count = all.filter((it) => it.conditions?.ready !== false).length;
      ready.set(service, (ready.get(service) ?? 0) + count);
    }
  const counts = [...ready.values()];
  return {
    nodes: nodes.length,
    readyNodes: nodes.filter((it) => it.ready).length,
    endpoints,
    readyEndpoints: counts.reduce((sum, it) => sum + it, 0),
    servicesWithoutEndpoints: counts.filter((it) => it === 0).length,
  };
}
