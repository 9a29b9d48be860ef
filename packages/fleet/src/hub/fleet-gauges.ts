import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { MCS_CONFLICT } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { GaugeMetric, Labels } from "@fairlead/base/metrics.ts";
import { findCondition, isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { type HubInformers, serviceOfExport } from "./informers.ts";
import { readNetworkSamples } from "./mesh/samples.ts";
import type { LeaseTracker } from "./membership/leases.ts";

/** What the leader knows of the fleet, for dashboards and alerts. Labels are bounded by the number of members. */

type Fleet = Pick<HubInformers, "members" | "exports" | "sliceExports" | "profiles" | "blocks" | "gateways">;

const PREFIX = "fairlead_fleet";
/** What each is, its labels, and its help. */
const GAUGES = {
  member_state: [
    ["member", "state"],
    "1 for the state of a member: healthy, silent, unknown, joining or leaving.",
  ],
  member_silence_seconds: [["member"], "Time since a member's Lease was seen to change."],
  exports: [["member"], "Services that a member exports."],
  conflicts: [["member"], "Of them, those on which clusters disagree."],
  endpoints: [["member"], "Ready endpoints that a member exports; one of two families counts twice."],
  services: [[], "Services that at least one member exports."],
  network_members: [["profile"], "Members of a ClusterMeshProfile."],
  network_ready: [["profile"], "1 if the condition Ready of a ClusterMeshProfile is True, otherwise 0."],
  network_gateways: [["profile"], "Gateways of a parallel network that its members see."],
  network_tunnels: [
    ["member", "path"],
    "Tunnels of a member's gateways by the way that their packets take: direct, relay, tcp or none.",
  ],
  network_free_blocks: [
    ["profile", "family"],
    "Blocks of fleet addresses that a parallel network can still give to members.",
  ],
} as const satisfies Record<string, readonly [readonly string[], string]>;

type Name = keyof typeof GAUGES;

interface Sample {
  readonly name: Name;
  readonly labels: Labels;
  readonly value: number;
}

/** The gauges are computed at each scrape, and removed when leadership ends. */
export function createFleetGauges(
  fleet: Fleet,
  leases: LeaseTracker,
  { metrics, clock }: Pick<RuntimeDeps, "metrics" | "clock">,
): Disposable {
  const gauges = new Map<Name, GaugeMetric>();
  for (const [name, [labels, help]] of Object.entries(GAUGES))
    gauges.set(name as Name, metrics.gauge({ name: `${PREFIX}_${name}`, labels: [...labels], help }));
  let reported: readonly Sample[] = [];
  const report = (samples: readonly Sample[]): void => {
    for (const { name, labels } of reported) gauges.get(name)?.remove(labels);
    for (const { name, labels, value } of samples) gauges.get(name)?.set(labels, value);
    reported = samples;
  };
  const reading = metrics.onRender(() => {
    const silences = (member: string): number | undefined => leases.silenceMs(member, clock.monotonic());
    report(readSamples(fleet, silences));
  });
  return {
    [Symbol.dispose]: () => {
      reading[Symbol.dispose]();
      report([]);
    },
  };
}

function readSamples(fleet: Fleet, silenceMs: (member: string) => number | undefined): readonly Sample[] {
  const { members, exports, sliceExports } = fleet;
  const services = new Set([...exports.store.list()].flatMap(serviceOfExport));
  const samples: Sample[] = [{ name: "services", labels: {}, value: services.size }];
  for (const object of members.store.list()) {
    const member = object.metadata.name;
    const mailbox = mailboxOf(member);
    const silentMs = silenceMs(member);
    const exported = [...exports.store.byIndex("in", mailbox)];
    const endpoints = [...sliceExports.store.byIndex("in", mailbox)].flatMap((it) => it.spec.endpoints);
    const add = (name: Name, value: number): void => void samples.push({ name, labels: { member }, value });
    samples.push({ name: "member_state", labels: { member, state: stateOf(object) }, value: 1 });
    if (silentMs !== undefined) add("member_silence_seconds", silentMs / 1000);
    add("exports", exported.length);
    add("conflicts", exported.filter(isInConflict).length);
    add("endpoints", endpoints.filter((it) => it.conditions?.ready !== false).length);
  }
  samples.push(...readNetworkSamples(fleet));
  return samples;
}

function stateOf(member: MemberCluster): "healthy" | "silent" | "unknown" | "joining" | "leaving" {
  if (isDeleting(member)) return "leaving";
  const statusOf = (type: string) => findCondition(member.status?.conditions, type)?.status;
  if (statusOf("Joined") !== "True") return "joining";
  switch (statusOf("Healthy")) {
    case "True":
      return "healthy";
    case "False":
      return "silent";
    default:
      return "unknown";
  }
}

function isInConflict({ status }: InternalServiceExport): boolean {
  return ["Conflict", MCS_CONFLICT].some((type) => isConditionTrue(status?.conditions, type));
}
