import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type {
  ClusterSelectorTerm,
  PlacementPolicy,
  PropertySorter,
  ResourceBinding,
  Toleration,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/**
 * Scheduling again, slow and plain, word for word after KubeFleet's rules: each pick looks at all clusters again, and counts
 * are counted again. Shares no code with the scheduler. For members whose heartbeats are fresh.
 */
export function oracle({ policy, members, bindings, namespace, snapshot }: OracleTask): OracleAnswer {
  const alive = bindings.filter((it) => it.metadata.deletionTimestamp === undefined);
  const isGone = (name: string): boolean =>
    !members.some((it) => it.metadata.name === name && it.metadata.deletionTimestamp === undefined);
  const active = alive.filter((it) => it.spec.state !== "Unscheduled");
  const rest = active.filter((it) => !isGone(it.spec.targetCluster));
  const firsts = rest.filter((it) => rest.every((other) => other === it || !isBefore(other, it, snapshot)));
  const current = firsts.filter((it) => it.spec.schedulingPolicySnapshotName === snapshot);
  const obsolete = firsts.filter((it) => it.spec.schedulingPolicySnapshotName !== snapshot);
  const dangling = active.filter((it) => !firsts.includes(it));
  const clusterOf = (it: ResourceBinding): string => it.spec.targetCluster;

  const count = policy?.placementType === "PickN" ? (policy.numberOfClusters ?? 0) : Infinity;
  const dropped = current.toSorted(byUse).slice(0, Math.max(0, current.length - count));
  const kept = current.filter((it) => !dropped.includes(it));

  const picked: string[] = [];
  const context = { members, policy, namespace };
  const isPickable = (it: MemberCluster): boolean => {
    const { name } = it.metadata;
    if (kept.some((other) => clusterOf(other) === name) || picked.includes(name)) return false;
    if (policy?.placementType === "PickFixed")
      return policy.clusterNames?.includes(name) === true && isEligible(it);
    return passes(it, context);
  };
  for (;;) {
    if (kept.length + picked.length >= count) break;
    const placed = [...kept.map(clusterOf), ...picked];
    const [best] = members
      .filter((it) => isPickable(it) && !isTooSkewed(it, placed, context))
      .map((member) => ({
        name: member.metadata.name,
        scores: [
          spreadScore(member, placed, context),
          affinityScore(member, context),
          obsolete.some((it) => clusterOf(it) === member.metadata.name) ? 1 : 0,
        ],
      }))
      .toSorted((a, b) => {
        const at = a.scores.findIndex((score, index) => score !== b.scores[index]);
        if (at >= 0) return (b.scores[at] ?? 0) - (a.scores[at] ?? 0);
        return a.name < b.name ? 1 : -1;
      });
    if (best === undefined) break;
    picked.push(best.name);
  }
  const unscheduled = alive.filter((it) => it.spec.state === "Unscheduled").map(clusterOf);
  const had = new Set([...obsolete.map(clusterOf), ...unscheduled]);
  return {
    create: picked.filter((it) => !had.has(it)).toSorted(),
    patch: picked.filter((it) => had.has(it)).toSorted(),
    unschedule: [...dangling, ...dropped, ...obsolete.filter((it) => !picked.includes(clusterOf(it)))]
      .map((it) => it.metadata.name)
      .toSorted(),
  };
}

export interface OracleTask {
  readonly policy: PlacementPolicy | undefined;
  readonly members: readonly MemberCluster[];
  readonly bindings: readonly ResourceBinding[];
  readonly namespace: string | undefined;
  readonly snapshot: string;
}
export interface OracleAnswer {
  readonly create: readonly string[];
  readonly patch: readonly string[];
  /** Names of bindings. */
  readonly unschedule: readonly string[];
}

type Context = Pick<OracleTask, "policy" | "members" | "namespace">;

function isBefore(a: ResourceBinding, b: ResourceBinding, snapshot: string): boolean {
  if (a.spec.targetCluster !== b.spec.targetCluster) return false;
  if (a.spec.state !== b.spec.state) return a.spec.state === "Bound";
  const isNew = (it: ResourceBinding): boolean => it.spec.schedulingPolicySnapshotName === snapshot;
  if (isNew(a) !== isNew(b)) return isNew(a);
  return a.metadata.name < b.metadata.name;
}

function byUse(a: ResourceBinding, b: ResourceBinding): number {
  if (a.spec.state !== b.spec.state) return a.spec.state === "Scheduled" ? -1 : 1;
  const scores = ({ spec: { clusterDecision } }: ResourceBinding): number[] => [
    clusterDecision.clusterScore?.priorityScore ?? 0,
    clusterDecision.clusterScore?.affinityScore ?? 0,
  ];
  const [[a1 = 0, a2 = 0], [b1 = 0, b2 = 0]] = [scores(a), scores(b)];
  if (a1 !== b1) return a1 - b1;
  if (a2 !== b2) return a2 - b2;
  return a.spec.targetCluster < b.spec.targetCluster ? -1 : 1;
}

function isEligible({ metadata, status }: MemberCluster): boolean {
  const agent = status?.agentStatus?.find((it) => it.type === "MemberAgent");
  const of = (type: string) => agent?.conditions?.find((it) => it.type === type);
  const healthy = of("Healthy");
  const since = Date.parse(healthy?.lastTransitionTime ?? "");
  const isLong = Date.parse(agent?.lastReceivedHeartbeat ?? "") - since > 300_000;
  return (
    metadata.deletionTimestamp === undefined &&
    of("Joined")?.status === "True" &&
    healthy !== undefined &&
    !(healthy.status === "False" && isLong)
  );
}

function passes(member: MemberCluster, { policy, namespace }: Context): boolean {
  const terms =
    policy?.affinity?.clusterAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.clusterSelectorTerms ??
    [];
  if (terms.length > 0 && !terms.some((it) => matchesTerm(member, it))) return false;
  if (!isEligible(member) || !hasNamespace(member, namespace)) return false;
  return (member.spec.taints ?? []).every((taint) =>
    (policy?.tolerations ?? []).some((it) => isTolerated(taint, it)),
  );
}

function hasNamespace({ status }: MemberCluster, namespace: string | undefined): boolean {
  const reports = status?.conditions?.some((it) => it.type === "NamespaceCollectionSucceeded") === true;
  return namespace === undefined || !reports || status?.namespaces?.[namespace] !== undefined;
}

function isTolerated(taint: { key: string; value?: string; effect: string }, it: Toleration): boolean {
  if (it.effect !== undefined && it.effect !== taint.effect) return false;
  if (it.operator === "Exists") return it.key === undefined || it.key === taint.key;
  return it.key === taint.key && (it.value ?? "") === (taint.value ?? "");
}

function matchesTerm(
  member: MemberCluster,
  { labelSelector, propertySelector }: ClusterSelectorTerm,
): boolean {
  if (labelSelector !== undefined && !matchesLabels(member.metadata.labels ?? {}, labelSelector))
    return false;
  return (propertySelector?.matchExpressions ?? []).every(({ name, operator, values }) => {
    const [value, limit] = [valueOf(member, name), milli(values[0])];
    if (value === undefined || limit === undefined) return false;
    if (operator === "Gt") return value > limit;
    if (operator === "Ge") return value >= limit;
    if (operator === "Lt") return value < limit;
    if (operator === "Le") return value <= limit;
    return (value === limit) === (operator === "Eq");
  });
}

function matchesLabels(
  labels: Record<string, string>,
  { matchLabels = {}, matchExpressions = [] }: LabelSelector,
): boolean {
  if (!Object.entries(matchLabels).every(([key, value]) => labels[key] === value)) return false;
  return matchExpressions.every(({ key, operator, values = [] }) => {
    const value = labels[key];
    if (operator === "Exists") return value !== undefined;
    if (operator === "DoesNotExist") return value === undefined;
    return (value !== undefined && values.includes(value)) === (operator === "In");
  });
}

/** Of the few forms that the tests use. Unit: 10^-3. */
function milli(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d+(m|k|Ki)?$/.test(text)) return undefined;
  const digits = Number(/^\d+/.exec(text)?.[0]);
  if (text.endsWith("Ki")) return digits * 1024 * 1000;
  if (text.endsWith("k")) return digits * 1_000_000;
  return text.endsWith("m") ? digits : digits * 1000;
}

function valueOf({ status }: MemberCluster, name: string): number | undefined {
  if (name !== "resources.kubernetes-fleet.io/available-cpu") return milli(status?.properties?.[name]?.value);
  return milli(status?.resourceUsage?.available?.["cpu"]);
}

function affinityScore(member: MemberCluster, { policy, members }: Context): number {
  const preferred = policy?.affinity?.clusterAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  let sum = 0;
  for (const { weight, preference } of preferred) {
    const { labelSelector, propertySorter } = preference;
    if (labelSelector !== undefined && !matchesLabels(member.metadata.labels ?? {}, labelSelector)) continue;
    sum += propertySorter === undefined ? weight : sortedWeight(member, members, propertySorter, weight);
  }
  return sum;
}

function sortedWeight(
  member: MemberCluster,
  members: readonly MemberCluster[],
  { name, sortOrder }: PropertySorter,
  weight: number,
): number {
  const value = valueOf(member, name);
  const values = members.map((it) => valueOf(it, name)).filter((it) => it !== undefined);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (value === undefined || least === most) return 0;
  const share = (value - least) / (most - least);
  const exact = weight * (sortOrder === "Descending" ? share : 1 - share);
  return exact < 0 ? -Math.floor(-exact + 0.5) : Math.floor(exact + 0.5);
}

/** The difference between the fullest and the emptiest domain; undefined for a cluster outside of all. */
function skews(member: MemberCluster, key: string, placed: readonly string[], { members }: Context) {
  const domain = member.metadata.labels?.[key];
  if (domain === undefined) return undefined;
  const domains = [
    ...new Set(members.map((it) => it.metadata.labels?.[key]).filter((it) => it !== undefined)),
  ];
  const skewOf = (names: readonly string[]): number => {
    const counts = domains.map(
      (it) =>
        members.filter((m) => names.includes(m.metadata.name) && m.metadata.labels?.[key] === it).length,
    );
    return Math.max(...counts) - Math.min(...counts);
  };
  return { before: skewOf(placed), after: skewOf([...placed, member.metadata.name]) };
}

function isTooSkewed(member: MemberCluster, placed: readonly string[], context: Context): boolean {
  return (context.policy?.topologySpreadConstraints ?? []).some(
    ({ topologyKey, maxSkew = 1, whenUnsatisfiable = "DoNotSchedule" }) =>
      whenUnsatisfiable === "DoNotSchedule" &&
      (skews(member, topologyKey, placed, context)?.after ?? 0) > maxSkew,
  );
}

function spreadScore(member: MemberCluster, placed: readonly string[], context: Context): number {
  let sum = 0;
  for (const { topologyKey, maxSkew = 1, whenUnsatisfiable } of context.policy?.topologySpreadConstraints ??
    []) {
    const skew = skews(member, topologyKey, placed, context);
    if (skew === undefined) continue;
    sum -= skew.after - skew.before;
    if (whenUnsatisfiable === "ScheduleAnyway" && skew.after > maxSkew) sum -= 1000;
  }
  return sum;
}
