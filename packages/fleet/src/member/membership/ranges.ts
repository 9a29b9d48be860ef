import { defined } from "@fairlead/base/defined.ts";
import type { MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type Node, type NodeCondition, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  nodeRangesOf,
  podRangesOf,
  rangeProperties,
  type RangeStatus,
  serviceRangesOf,
} from "#domain/ranges.ts";
import { engineAnnotations } from "#domain/policy-engine.ts";
import {
  NODE_AGENT_CONDITION,
  NODE_POLICY_CONDITION,
  POLICY_AT_BOOT,
} from "#api/fairlead.dev/node-agents.ts";
import { NODE_RANGES, POD_RANGES, SERVICE_RANGES } from "#api/fairlead.dev/names.ts";
import { SERVICE_CIDRS, type ServiceCidr } from "@fairlead/kube/api/networking/v1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { type MemberPart, runs } from "../roles.ts";

/** What says which ranges the cluster takes addresses from. */
export interface Ranges {
  readonly nodes: Informer<Node>;
  /** Asked for with each report: a watch would ask servers that do not know the kind, older than 1.33, for ever. */
  readonly serviceCidrs: (signal: AbortSignal) => Promise<readonly ServiceCidr[]>;
}

/** Returns undefined for parts that do not report ranges. */
export function createRanges(client: KubeClient, part: MemberPart, deps: RuntimeDeps): Ranges | undefined {
  if (!runs(part, "member-net") || part.isFleetOnly === true) return undefined;
  return {
    // Where they may not be read the member says less.
    nodes: createInformer(client, NODES, { isOptional: () => true, trim: trimmed }, deps),
    serviceCidrs: (signal) =>
      client.list(SERVICE_CIDRS, { signal }).then(
        ({ items }) => items,
        () => [],
      ),
  };
}

/** Kubelets write much that is of no use here. */
function trimmed({ metadata, spec, status }: Node): Node {
  const { name, uid = "", resourceVersion = "", deletionTimestamp, labels } = metadata;
  const annotations = engineAnnotations(metadata.annotations);
  const { podCIDR, podCIDRs } = spec ?? {};
  const conditions = (status?.conditions ?? []).filter((it) => KEPT.has(it.type));
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      ...defined({ deletionTimestamp, labels }),
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: { ...defined({ podCIDR, podCIDRs }) },
    status: {
      addresses: (status?.addresses ?? []).filter((it) => it.type === "InternalIP"),
      conditions: conditions.map((it) => withoutTimes(it)),
      ...defined({ capacity: usable(status?.capacity), allocatable: usable(status?.allocatable) }),
      nodeInfo: { kubeletVersion: kubeletVersionOf(status) },
    },
  };
}

function kubeletVersionOf(status: Node["status"]): string {
  return status?.nodeInfo?.["kubeletVersion"] ?? "";
}

function usable(of: Readonly<Record<string, string>> | undefined): Record<string, string> | undefined {
  return of === undefined ? undefined : { cpu: of["cpu"] ?? "0", memory: of["memory"] ?? "0" };
}

const KEPT: ReadonlySet<string> = new Set([
  "Ready",
  "NetworkUnavailable",
  NODE_AGENT_CONDITION,
  NODE_POLICY_CONDITION,
  POLICY_AT_BOOT,
]);

/** Heartbeats of kubelets change nothing for readers. */
function withoutTimes({
  type,
  status,
  lastTransitionTime,
  lastHeartbeatTime,
  reason,
  message,
}: NodeCondition): NodeCondition {
  if (type === NODE_AGENT_CONDITION) return { type, status, ...defined({ message }) };
  if (type === POLICY_AT_BOOT) return { type, status, ...defined({ reason }) };
  if (type === NODE_POLICY_CONDITION) return { type, status, ...defined({ lastHeartbeatTime, reason }) };
  return {
    type,
    status,
    ...defined({ lastTransitionTime, reason: type === "NetworkUnavailable" ? reason : undefined }),
  };
}

/** Computes the report of ranges from the current and the previously reported ones. */
export async function planRanges(
  { nodes, serviceCidrs }: Ranges,
  before: MemberClusterStatus["properties"],
  at: { readonly now: string; readonly signal: AbortSignal },
): Promise<RangeStatus> {
  const texts = {
    [POD_RANGES]: podRangesOf(nodes.store.list()),
    [NODE_RANGES]: nodeRangesOf(nodes.store.list()),
    [SERVICE_RANGES]: serviceRangesOf(await serviceCidrs(at.signal)),
  };
  return rangeProperties(texts, before, at.now);
}
