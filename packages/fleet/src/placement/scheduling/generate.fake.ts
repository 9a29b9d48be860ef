import * as fc from "fast-check";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type {
  ClusterSelectorTerm,
  PlacementPolicy,
  PreferredClusterSelector,
  ResourceBinding,
  Toleration,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { condition, fakeBinding, type FakeMember, fakeMember } from "./cluster.fake.ts";

/** Random fleets, policies and bindings, small enough that clusters meet in labels, scores and names. */

const NAMES = ["a", "b", "c", "d", "e", "f", "g"];
const VALUES = ["x", "y", "z"];
const PROPERTIES = ["gpu", "resources.kubernetes-fleet.io/available-cpu"];
const quantity = fc.constantFrom("0", "1", "2", "3", "2500m", "3000m", "1k", "1Ki");

const NONE_REQUIRED = { requiredKeys: [] };

const value = fc.constantFrom(...VALUES);
const labels = fc.record({ env: value, zone: value }, NONE_REQUIRED);
const taint = fc.record(
  {
    key: fc.constantFrom("k", "l"),
    value: fc.constantFrom("1", "2"),
    effect: fc.constant("NoSchedule" as const),
  },
  { requiredKeys: ["key", "effect"] },
);
const taints = fc.uniqueArray(taint, { maxLength: 2, selector: (it) => JSON.stringify(it) });

const member: fc.Arbitrary<FakeMember> = fc.record(
  {
    labels,
    taints: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: taints }),
    properties: fc.record({ gpu: quantity }, NONE_REQUIRED),
    available: fc.record({ cpu: quantity }, NONE_REQUIRED),
    namespaces: fc.constantFrom({}, { shop: "work" }),
    joined: fc.constantFrom("True", "True", "True", "True", "Unknown"),
    healthy: fc.constantFrom("True", "True", "False"),
    isDeleting: fc.constantFrom(false, false, false, false, false, true),
  },
  NONE_REQUIRED,
);

/** Some have been unhealthy for long. */
export const members: fc.Arbitrary<MemberCluster[]> = fc
  .subarray(NAMES)
  .chain((names) =>
    fc.tuple(
      ...names.map((name) => fc.tuple(fc.constant(name), member, fc.constantFrom(0, 200_000, 400_000))),
    ),
  )
  .map((all) => all.map(([name, options, sinceMs]) => unhealthySince(name, options, sinceMs)));

function unhealthySince(name: string, options: FakeMember, sinceMs: number): MemberCluster {
  const made = fakeMember(name, options);
  const [agent] = made.status?.agentStatus ?? [];
  const atMs = Date.parse(agent?.lastReceivedHeartbeat ?? "");
  const { joined = "True", healthy = "True" } = options;
  const since = new Date(atMs - sinceMs).toISOString();
  if (agent !== undefined)
    agent.conditions = [condition("Joined", joined), condition("Healthy", healthy, since)];
  return made;
}

const selector: fc.Arbitrary<LabelSelector> = fc.oneof(
  labels.map((matchLabels) => ({ matchLabels })),
  fc
    .record({
      key: fc.constantFrom("env", "zone"),
      values: fc.subarray(VALUES, { minLength: 1 }),
      operator: fc.constantFrom("In", "NotIn", "Exists", "DoesNotExist"),
    })
    .map(({ key, values, operator }) => ({
      matchExpressions: [
        operator === "In" || operator === "NotIn" ? { key, operator, values } : { key, operator },
      ],
    })),
);
const property = fc.constantFrom(...PROPERTIES);
const expression = fc.record({
  name: property,
  operator: fc.constantFrom("Gt", "Ge", "Lt", "Le", "Eq", "Ne"),
  values: fc.tuple(quantity),
});
const term: fc.Arbitrary<ClusterSelectorTerm> = fc.record(
  { labelSelector: selector, propertySelector: fc.record({ matchExpressions: fc.tuple(expression) }) },
  NONE_REQUIRED,
);
const sorter = fc.record({ name: property, sortOrder: fc.constantFrom("Ascending", "Descending") });
const preferred: fc.Arbitrary<PreferredClusterSelector> = fc.record({
  weight: fc.integer({ min: -100, max: 100 }),
  preference: fc.record({ labelSelector: selector, propertySorter: sorter }, NONE_REQUIRED),
});
const toleration: fc.Arbitrary<Toleration> = fc.oneof(
  fc.record(
    { operator: fc.constant("Exists"), key: fc.constantFrom("k", "l") },
    { requiredKeys: ["operator"] },
  ),
  fc.record(
    {
      key: fc.constantFrom("k", "l"),
      value: fc.constantFrom("1", "2"),
      effect: fc.constant("NoSchedule"),
    },
    { requiredKeys: ["key"] },
  ),
);
const tolerations = fc.array(toleration, { maxLength: 2 });
const required = fc.array(term, { minLength: 1, maxLength: 2 }).map((clusterSelectorTerms) => ({
  requiredDuringSchedulingIgnoredDuringExecution: { clusterSelectorTerms },
}));
const spread = fc.array(
  fc.record(
    {
      topologyKey: fc.constantFrom("zone", "env"),
      maxSkew: fc.constantFrom(1, 2),
      whenUnsatisfiable: fc.constantFrom("DoNotSchedule", "ScheduleAnyway"),
    },
    { requiredKeys: ["topologyKey"] },
  ),
  { maxLength: 2 },
);
const affinity = fc
  .tuple(fc.oneof(fc.constant({}), required), fc.array(preferred, { maxLength: 3 }))
  .map(([some, preferredDuringSchedulingIgnoredDuringExecution]) => ({
    clusterAffinity: { ...some, preferredDuringSchedulingIgnoredDuringExecution },
  }));

export const policies: fc.Arbitrary<PlacementPolicy | undefined> = fc.oneof(
  { weight: 1, arbitrary: fc.constant(undefined) },
  {
    weight: 2,
    arbitrary: fc.record(
      { affinity: required.map((clusterAffinity) => ({ clusterAffinity })), tolerations },
      NONE_REQUIRED,
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      placementType: fc.constant("PickFixed"),
      clusterNames: fc.subarray([...NAMES, "none"], { minLength: 1 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record(
      {
        placementType: fc.constant("PickN"),
        numberOfClusters: fc.integer({ min: 0, max: 6 }),
        affinity,
        tolerations,
        topologySpreadConstraints: spread,
      },
      { requiredKeys: ["placementType", "numberOfClusters"] },
    ),
  },
);

const binding = fc
  .record({
    cluster: fc.constantFrom(...NAMES, "gone"),
    state: fc.constantFrom("Scheduled", "Bound", "Unscheduled"),
    isCurrent: fc.boolean(),
    isDeleting: fc.constantFrom(false, false, false, true),
    scores: fc.tuple(fc.integer({ min: -2, max: 1 }), fc.integer({ min: -1, max: 1 })),
  })
  .map(({ cluster, state, isCurrent, isDeleting, scores: [priorityScore, affinityScore] }) => ({
    spec: {
      state,
      schedulingPolicySnapshotName: isCurrent ? "p-1" : "p-0",
      targetCluster: cluster,
      clusterDecision: {
        clusterName: cluster,
        selected: true,
        reason: "",
        clusterScore: { priorityScore, affinityScore },
      },
    },
    metadata: isDeleting ? { deletionTimestamp: "2026-06-01T00:00:00Z" } : {},
  }));

export const bindings: fc.Arbitrary<ResourceBinding[]> = fc
  .array(binding, { maxLength: 8 })
  .map((all) =>
    all.map(({ spec, metadata }, at) =>
      fakeBinding(spec.targetCluster, spec, { ...metadata, name: `b${at}` }),
    ),
  );
