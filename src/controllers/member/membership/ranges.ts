import type { MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type Node, NODES } from "#api/core/v1/types.ts";
import {
  podRangesOf,
  rangeProperties,
  type RangeStatus,
  serviceRangesOf,
} from "#api/fairlead.dev/model/ranges.ts";
import { POD_RANGES, SERVICE_RANGES } from "#api/fairlead.dev/names.ts";
import { SERVICE_CIDRS, type ServiceCidr } from "#api/networking/v1/types.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createInformer } from "#kube/informer.ts";
import type { Informer, KubeClient } from "#kube/types.ts";
import { type MemberPart, runs } from "../roles.ts";

/** What says which ranges the cluster takes addresses from. Nothing waits for it. */
export interface RangeInformers {
  readonly nodes: Informer<Node>;
  readonly serviceCidrs: Informer<ServiceCidr>;
}

/** Undefined for parts that do not tell of ranges. */
export function createRangeInformers(
  client: KubeClient,
  part: MemberPart,
  deps: RuntimeDeps,
): RangeInformers | undefined {
  if (!runs(part, "member-net") || part.isFleetOnly === true) return undefined;
  // Where they may not be read, or are not served, the member says less.
  const isOptional = (): boolean => true;
  return {
    nodes: createInformer(client, NODES, { isOptional, trim: trimmed }, deps),
    serviceCidrs: createInformer(client, SERVICE_CIDRS, { isOptional }, deps),
  };
}

/** Kubelets write much that is of no use here. */
function trimmed({ metadata: { name, uid = "", resourceVersion = "" }, spec }: Node): Node {
  const { podCIDR, podCIDRs } = spec ?? {};
  return {
    metadata: { name, uid, resourceVersion },
    spec: { ...(podCIDR === undefined ? {} : { podCIDR }), ...(podCIDRs === undefined ? {} : { podCIDRs }) },
  };
}

/** What the hub is told, beside what it was told before. */
export function planRanges(
  { nodes, serviceCidrs }: RangeInformers,
  before: MemberClusterStatus["properties"],
  now: string,
): RangeStatus {
  const texts = {
    [POD_RANGES]: podRangesOf(nodes.store.list()),
    [SERVICE_RANGES]: serviceRangesOf(serviceCidrs.store.list()),
  };
  return rangeProperties(texts, before, now);
}
