import { defined } from "@fairlead/base/defined.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type {
  PlacementPolicy,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type ClusterFacts, clusterFacts, type Taint } from "./cluster.ts";
import { compilePolicy } from "./policy.ts";
import { schedule, type Schedule } from "./schedule.ts";

/** Members and bindings for tests. */

export interface FakeMember {
  readonly labels?: Record<string, string>;
  readonly taints?: readonly (Taint & { effect: "NoSchedule" })[];
  readonly properties?: Record<string, string>;
  readonly available?: Record<string, string>;
  readonly namespaces?: Record<string, string>;
  readonly heartbeat?: string;
  readonly joined?: Condition["status"];
  readonly healthy?: Condition["status"];
  readonly isDeleting?: boolean;
}

const AT = "2026-06-01T00:00:00Z";

export function condition(type: string, status: Condition["status"], lastTransitionTime = AT): Condition {
  return { type, status, lastTransitionTime, reason: type, message: "" };
}

/** A member that can take placements, unless it says otherwise. */
export function fakeMember(name: string, options: FakeMember = {}): MemberCluster {
  const { labels, taints, properties = {}, available, namespaces, heartbeat = AT } = options;
  const { joined = "True", healthy = "True", isDeleting = false } = options;
  return {
    metadata: { name, ...defined({ labels, deletionTimestamp: isDeleting ? AT : undefined }) },
    spec: { identity: { kind: "User", name }, ...defined({ taints: taints && [...taints] }) },
    status: {
      conditions: namespaces === undefined ? [] : [condition("NamespaceCollectionSucceeded", "True")],
      properties: Object.fromEntries(
        Object.entries(properties).map(([key, value]) => [key, { value, observationTime: AT }]),
      ),
      agentStatus: [
        {
          type: "MemberAgent",
          lastReceivedHeartbeat: heartbeat,
          conditions: [condition("Joined", joined), condition("Healthy", healthy)],
        },
      ],
      ...defined({ namespaces, resourceUsage: available === undefined ? undefined : { available } }),
    },
  };
}

export function fakeCluster(name: string, options?: FakeMember): ClusterFacts {
  return clusterFacts(fakeMember(name, options), { heartbeatAgeMs: 0 });
}

export function fleetOf(...clusters: readonly ClusterFacts[]): ReadonlyMap<string, ClusterFacts> {
  return new Map(clusters.map((it) => [it.name, it]));
}

export function fakeBinding(
  cluster: string,
  spec: Partial<ResourceBinding["spec"]> = {},
  metadata: Partial<ResourceBinding["metadata"]> = {},
): ResourceBinding {
  return {
    metadata: { name: `p-${cluster}`, ...metadata },
    spec: {
      state: "Bound",
      resourceSnapshotName: "p-0-snapshot",
      schedulingPolicySnapshotName: "p-0",
      targetCluster: cluster,
      clusterDecision: { clusterName: cluster, selected: true, reason: "" },
      ...spec,
    },
  };
}

export function scheduled(
  policy: PlacementPolicy | undefined,
  clusters: readonly ClusterFacts[],
  bindings: readonly ResourceBinding[] = [],
  namespace?: string,
): Schedule {
  return schedule({
    placement: { namespace, name: "p" },
    policy: compilePolicy(policy),
    snapshot: { name: "p-0", hash: "" },
    count: policy?.numberOfClusters ?? 0,
    clusters: fleetOf(...clusters),
    bindings,
  });
}

/** The clusters of new and of changed bindings, and of those that go. */
export function changesIn({ create, patch, unschedule }: Schedule): object {
  const sorted = (names: readonly string[]): string => names.toSorted().join(" ");
  return {
    create: sorted(create.map((it) => it.spec.targetCluster)),
    patch: sorted(patch.map((it) => it.binding.spec.targetCluster)),
    unschedule: sorted(unschedule.map((it) => it.spec.targetCluster)),
  };
}

/** The bindings as they are once a schedule is written. */
export function applied(
  present: readonly ResourceBinding[],
  { create, patch, unschedule }: Schedule,
  schedulingPolicySnapshotName: string,
): ResourceBinding[] {
  const patches = new Map(patch.map((it) => [it.binding, it]));
  return [
    ...create,
    ...present.map((it): ResourceBinding => {
      const found = patches.get(it);
      if (unschedule.includes(it)) return { ...it, spec: { ...it.spec, state: "Unscheduled" } };
      if (found === undefined) return it;
      const { state, decision: clusterDecision } = found;
      return { ...it, spec: { ...it.spec, state, schedulingPolicySnapshotName, clusterDecision } };
    }),
  ];
}
