import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_UID_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { isVersion } from "#api/fairlead.dev/node-agents.ts";
import type { AppliedMesh, ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { findOverlap, planOf } from "#domain/address-plan.ts";
import { CNI_PROPERTY, KUBERNETES_PROPERTY, OTHER_MESH_PROPERTY } from "#domain/cluster-facts.ts";
import { type NamedRange, rangesOf } from "#domain/ranges.ts";
import { formatPrefix, overlaps } from "@fairlead/base/netaddr/prefix.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { compareVersions } from "../fleet/versions.ts";
import type { MeshSnapshot } from "./read.ts";

/** What is checked before a plan changes anything. Each finding has its remedy. Pure. */

export const MESH_CHECKS = ["health", "identity", "cidrs", "versions", "clock", "cni"] as const;
export type MeshCheck = (typeof MESH_CHECKS)[number];

export interface MeshFinding {
  readonly check: MeshCheck | "reachability";
  readonly status: "warning" | "failed";
  /** What was found, and what to do. */
  readonly message: string;
}

interface Checked {
  readonly target: AppliedMesh;
  /** That the plan is for, those that belong to the profile already included. */
  readonly members: readonly MemberCluster[];
  /** Names of those that the plan adds. */
  readonly added: ReadonlySet<string>;
  readonly profile: ClusterMeshProfile;
  readonly snapshot: MeshSnapshot;
  /** Of this program. */
  readonly version: string;
  /** By the clock of the hub's API server. */
  readonly nowMs: number;
}

export function checkMesh(
  profile: ClusterMeshProfile,
  target: AppliedMesh,
  snapshot: MeshSnapshot,
  { version, nowMs }: { readonly version: string; readonly nowMs: number },
): readonly MeshFinding[] {
  const wanted = new Set(target.members);
  const before = new Set(profile.spec.applied?.members);
  const checked: Checked = {
    target,
    members: snapshot.members.filter((it) => wanted.has(it.metadata.name)),
    added: wanted.difference(before),
    profile,
    snapshot,
    version,
    nowMs,
  };
  const looks = [checkHealth, checkIdentity, checkRanges, checkVersions, checkClocks, checkCnis];
  return looks.flatMap((look) => look(checked));
}

function failed(check: MeshFinding["check"], message: string): MeshFinding {
  return { check, status: "failed", message };
}
function warning(check: MeshFinding["check"], message: string): MeshFinding {
  return { check, status: "warning", message };
}

function checkHealth({ members, added, snapshot }: Checked): MeshFinding[] {
  const reporting = new Set(snapshot.reports.map((it) => it.metadata.name));
  return members
    .filter((it) => added.has(it.metadata.name))
    .flatMap(({ metadata: { name }, status }) => {
      const [joined, healthy] = ["Joined", "Healthy"].map((it) => findCondition(status?.conditions, it));
      if (joined?.status !== "True")
        return [
          failed("health", `${name} has not joined the fleet; check that "fairlead member" runs there`),
        ];
      if (healthy?.status === "False")
        return [
          failed(
            "health",
            `the agent of ${name} does not answer: ${healthy.message}; check its pods, or change the labels of ${name}`,
          ),
        ];
      return reporting.has(name)
        ? []
        : [
            failed(
              "health",
              `the agent of ${name} reports no namespaces: it is not Fairlead's; run "fairlead join ${name}" to replace it`,
            ),
          ];
    });
}

/** Names are unique on the hub; a cluster that joined under two names is not. */
function checkIdentity({ members }: Checked): MeshFinding[] {
  const byUid = Map.groupBy(members, (it) => it.metadata.annotations?.[CLUSTER_UID_ANNOTATION] ?? "");
  const twice = [...byUid].filter(([uid, all]) => uid !== "" && all.length > 1);
  return twice.map(([uid, all]) =>
    failed(
      "identity",
      `${namesOf(all)} are the same cluster (kube-system has the UID ${uid}); remove one of them with "fairlead leave"`,
    ),
  );
}

function checkRanges(checked: Checked): MeshFinding[] {
  return checked.target.network.mode === "flat" ? checkFlatRanges(checked) : checkFleetRanges(checked);
}

/** Addresses of pods and nodes are used by other clusters; addresses of Services mean something in their own only. */
function checkFlatRanges({ members, added }: Checked): MeshFinding[] {
  const ranges = members.map((it) => ({ name: it.metadata.name, all: rangesOf(it) }));
  const clashes = ranges.flatMap((a, at) =>
    ranges.slice(at + 1).flatMap((b) => {
      const clash = added.has(a.name) || added.has(b.name) ? clashOf(a.all, b.all) : undefined;
      if (clash === undefined) return [];
      const [left, right] = clash;
      const message = `${left.of} addresses of ${a.name} (${formatPrefix(left.range)}) and ${right.of} addresses of ${b.name} (${formatPrefix(right.range)}) overlap: a flat network cannot tell them apart; use network.mode parallel, or other ranges in one of the clusters`;
      return [failed("cidrs", message)];
    }),
  );
  const silent = ranges.filter((it) => !it.all.some(({ of }) => of === "pod")).map((it) => it.name);
  return silent.length === 0
    ? clashes
    : [
        ...clashes,
        warning(
          "cidrs",
          `the pod addresses of ${silent.join(", ")} are not known; check that they overlap with none, and pass --pod-cidr to "fairlead join"`,
        ),
      ];
}

function clashOf(
  own: readonly NamedRange[],
  others: readonly NamedRange[],
): readonly [NamedRange, NamedRange] | undefined {
  for (const a of own)
    for (const b of others)
      if ((a.of === "pod" || b.of === "pod") && overlaps(a.range, b.range)) return [a, b];
  return undefined;
}

function checkFleetRanges({ members, profile, target, added }: Checked): MeshFinding[] {
  const plan = planOf({ ...profile, spec: { ...profile.spec, network: target.network } });
  if (typeof plan === "string") return [failed("cidrs", `${plan}; correct spec.network.addresses`)];
  return members
    .filter((it) => added.has(it.metadata.name))
    .flatMap((member) => {
      const ranges = rangesOf(member);
      const overlap = findOverlap(
        plan,
        ranges.map((it) => it.range),
      );
      if (overlap === undefined) return [];
      const message = `${member.metadata.name} uses ${formatPrefix(overlap)}, which overlaps the fleet addresses ${formatPrefix(plan.ipv4)} and ${formatPrefix(plan.ipv6)}; use another spec.network.addresses`;
      return [failed("cidrs", message)];
    });
}

const MINOR = /^v?(\d{1,4})\.(\d{1,4})\./;

function minorOf(text: string | undefined): number | undefined {
  const found = MINOR.exec(text ?? "");
  return found === null ? undefined : Number(found[1]) * 1000 + Number(found[2]);
}

/** Programs of two consecutive minor versions work together. */
const OWN_SKEW = 1;
/** Kubernetes supports so many minor versions of itself at a time. */
const KUBERNETES_SKEW = 3;

function checkVersions({ members, snapshot, target, version }: Checked): MeshFinding[] {
  const wanted = new Set(members.map((it) => it.metadata.name));
  const { members: all = [] } = compareVersions(version, {
    hub: undefined,
    members: snapshot.members,
    leases: snapshot.leases,
  });
  const own = new Map(all.filter((it) => wanted.has(it.name)).map((it) => [it.name, it.version]));
  if (target.version !== undefined) own.set("spec.version", target.version);
  const kubernetes = new Map(
    members.map((it) => [it.metadata.name, it.status?.properties?.[KUBERNETES_PROPERTY]?.value]),
  );
  return [
    ...(target.version !== undefined && !isVersion(target.version)
      ? [failed("versions", `spec.version ${JSON.stringify(target.version)} is not a version`)]
      : []),
    ...skewOf(own, OWN_SKEW).map((it) =>
      failed("versions", `Fairlead: ${it}; upgrade the older one first, one minor version at a time`),
    ),
    ...skewOf(kubernetes, KUBERNETES_SKEW).map((it) =>
      warning("versions", `Kubernetes: ${it}; upgrade the older cluster`),
    ),
  ];
}

function skewOf(versions: ReadonlyMap<string, string | undefined>, most: number): string[] {
  const known = [...versions]
    .flatMap(([name, text]) => {
      const minor = minorOf(text);
      return minor === undefined ? [] : [{ name, text, minor }];
    })
    .toSorted((a, b) => a.minor - b.minor);
  const [oldest, newest] = [known.at(0), known.at(-1)];
  if (oldest === undefined || newest === undefined || newest.minor - oldest.minor <= most) return [];
  return [
    `${oldest.name} has ${oldest.text} and ${newest.name} ${newest.text}, more than ${most} minor versions apart`,
  ];
}

/** Unit: milliseconds. */
const CLOCK_LIMIT_MS = 30_000;

/** Heartbeats and renewals have the time of the member: none is later than the hub's now, unless its clock is ahead. */
function checkClocks({ members, snapshot, nowMs }: Checked): MeshFinding[] {
  const beats = new Map(snapshot.internalMembers.map((it) => [keyOf(it), it.status?.agentStatus ?? []]));
  const leases = new Map(snapshot.leases.map((it) => [keyOf(it), it.spec?.renewTime]));
  return members.flatMap(({ metadata: { name } }) => {
    const key = objectKey(mailboxOf(name), name);
    const times = [leases.get(key), ...(beats.get(key) ?? []).map((it) => it.lastReceivedHeartbeat)];
    const knownMs = times.map((it) => Date.parse(it ?? "")).filter(Number.isFinite);
    const aheadMs = Math.max(...knownMs) - nowMs;
    if (aheadMs <= CLOCK_LIMIT_MS) return [];
    const seconds = Math.round(aheadMs / 1000);
    return [
      warning("clock", `the clock of ${name} is ${seconds} s ahead of the hub's; synchronize them (NTP)`),
    ];
  });
}

function checkCnis({ members, added }: Checked): MeshFinding[] {
  return members
    .filter((it) => added.has(it.metadata.name))
    .flatMap(({ metadata: { name }, status }) => {
      const mesh = status?.properties?.[OTHER_MESH_PROPERTY]?.value;
      const cni = status?.properties?.[CNI_PROPERTY]?.value;
      return [
        ...(mesh === undefined
          ? []
          : [
              failed(
                "cni",
                `${name} belongs to another mesh (${mesh}), which routes between clusters, too; remove it there first`,
              ),
            ]),
        ...(cni === undefined
          ? []
          : [
              warning(
                "cni",
                `the CNI of ${name} is ${cni}, which enforces network policies itself; it must not hide the addresses of pods from other clusters: exclude their pod CIDRs from masquerading (fairlead verify shows it)`,
              ),
            ]),
      ];
    });
}

function namesOf(members: readonly MemberCluster[]): string {
  return members.map((it) => it.metadata.name).join(", ");
}
