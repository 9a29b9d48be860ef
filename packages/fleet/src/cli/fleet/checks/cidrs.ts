import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CONFIG_MAPS, type Node, NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { GRANTED_CIDRS_ANNOTATION, POD_RANGES, SERVICE_RANGES } from "#api/fairlead.dev/names.ts";
import { formatRanges, podRangesOf, rangesOf, readRanges, serviceRangesOf } from "#domain/ranges.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { SERVICE_CIDRS } from "@fairlead/kube/api/networking/v1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, formatPrefix, overlaps, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { JoinOptions } from "../join-options.ts";
import type { Finding } from "./finding.ts";

/** Which addresses a cluster gives out, as far as it says. */
export interface Cidrs {
  readonly pods: readonly Prefix[];
  readonly services: readonly Prefix[];
  /** The networks of its endpoints, pods of future nodes included. Undefined if they cannot be determined. */
  readonly granted?: readonly Prefix[] | undefined;
}

/** Reads the nodes, the ServiceCIDRs and the configuration of kubeadm. What the user cannot read counts as unknown. */
export async function readCidrs(
  client: KubeClient,
  declared: readonly Prefix[],
  signal: AbortSignal,
): Promise<Cidrs> {
  const [nodes, pods, services, kubeadm] = await Promise.all([
    listOrNothing(client.list(NODES, { signal })),
    orNothing(client.list(PODS, { limit: POD_SAMPLE, signal })),
    listOrNothing(client.list(SERVICE_CIDRS, { signal })),
    orNothing(client.find(CONFIG_MAPS, objectKey("kube-system", "kubeadm-config"), { signal })),
  ]);
  const reported = kubeadm?.data?.["ClusterConfiguration"] ?? "";
  // Two plain values, by kubeadm's own writing: no YAML parser for them.
  const reportedOf = (field: string): string[] =>
    (new RegExp(`^ *${field}: *"?([0-9a-fA-F:./,]+)`, "m").exec(reported)?.[1] ?? "").split(",");
  const subnets = reportedOf("podSubnet").flatMap((it) => readRanges([it]));
  const whole = declared.length > 0 ? declared : areAllIn(subnets, pods?.items) ? subnets : [];
  // Pods with the node's network have its address. The podCIDRs of nodes do not cover future nodes.
  const granted = [...whole.map(formatPrefix), ...nodes.flatMap(addressesOf)];
  return {
    pods: readRanges([...[...declared, ...subnets].map(formatPrefix), ...podRangesOf(nodes)]),
    granted: whole.length === 0 ? undefined : readRanges(granted),
    services: readRanges([...reportedOf("serviceSubnet"), ...serviceRangesOf(services)]),
  };
}

/** A network plugin may use other ranges than those of kubeadm. @param pods - Undefined if unknown. */
function areAllIn(networks: readonly Prefix[], pods: readonly Pod[] | undefined): boolean {
  return (
    pods !== undefined &&
    addressesOfPods(pods).every((it) => networks.some((one) => containsAddress(one, it)))
  );
}

async function listOrNothing<T>(asked: Promise<{ readonly items: readonly T[] }>): Promise<readonly T[]> {
  return (await orNothing(asked))?.items ?? [];
}

/** Pods that are looked at. */
const POD_SAMPLE = 500;

/** Without those that have their node's. */
function addressesOfPods(pods: readonly Pod[]): IpAddress[] {
  return pods
    .filter((it) => it.spec?.hostNetwork !== true)
    .flatMap((it) => it.status?.podIPs ?? [])
    .flatMap(({ ip }) => tryParseAddress(ip) ?? []);
}

function addressesOf({ status }: Node): string[] {
  const own = (status?.addresses ?? []).filter((it) => it.type === "InternalIP" || it.type === "ExternalIP");
  return own.map((it) => `${it.address}/${it.address.includes(":") ? 128 : 32}`);
}

async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN")) return undefined;
    throw error;
  }
}

/** The addresses of a member that the hub stores, for members that join later. */
export function cidrAnnotations({ pods, services }: Cidrs): Record<string, string> {
  return {
    ...(pods.length === 0 ? {} : { [POD_RANGES]: formatRanges(pods) }),
    ...(services.length === 0 ? {} : { [SERVICE_RANGES]: formatRanges(services) }),
  };
}

/** The grant of a joining member, if all its networks are known. */
export function grantAnnotation({ granted }: Cidrs): Record<string, string> {
  return granted === undefined ? {} : { [GRANTED_CIDRS_ANNOTATION]: formatRanges(granted) };
}

function cidrsOf(member: MemberCluster): Cidrs {
  const ranges = rangesOf(member);
  const known = (of: "pod" | "service"): Prefix[] =>
    ranges.filter((it) => it.of === of).map((it) => it.range);
  return { pods: known("pod"), services: known("service") };
}

export async function readMembers(hub: KubeClient, signal: AbortSignal): Promise<readonly MemberCluster[]> {
  return (await orNothing(hub.list(MEMBER_CLUSTERS, { signal })))?.items ?? [];
}

/**
 * In a flat network an address is one pod's, everywhere. Addresses of Services mean something in their own cluster only,
 * so that two clusters may have the same ones; a pod must not have one that is a Service's elsewhere. In a parallel network
 * pods have addresses of the fleet's plan, and their clusters' own may be equal.
 *
 * @param options.parallelProfile - The parallel profile in which the member will be; default: none.
 */
export function judgeCidrs(
  { name, parallelProfile }: Pick<JoinOptions, "name" | "parallelProfile">,
  own: Cidrs,
  members: readonly MemberCluster[],
): Finding {
  const check = "cidrs" as const;
  const others = members.filter((it) => it.metadata.name !== name);
  const clashes = others.flatMap((it) => clashesOf(own, cidrsOf(it), it.metadata.name));
  const [clash] = clashes;
  if (clash !== undefined && parallelProfile !== undefined)
    return {
      check,
      status: "warning",
      message: `${clashes.join("; ")}: ${name} can reach these members only through the parallel profile ${parallelProfile}; make sure that the profile selects all of them`,
    };
  if (clash !== undefined)
    return {
      check,
      status: "failed",
      message: `${clashes.join("; ")}: traffic would be misrouted; use other ranges in one cluster, pass --parallel-profile if the members will be in a parallel profile, or --skip-check cidrs if they do not really overlap`,
    };
  if (own.pods.length === 0)
    return {
      check,
      status: "unknown",
      message: `cannot determine the pod addresses of cluster ${name}: its nodes have no podCIDRs, and there is no kubeadm-config; pass --pod-cidr, and make sure that no other member uses the same addresses (until then, endpoints of ${name} may have any address)`,
    };
  const silent = others.filter((it) => cidrsOf(it).pods.length === 0).map((it) => it.metadata.name);
  const rest = silent.length === 0 ? "" : `; those of ${silent.join(", ")} are unknown`;
  const ask =
    own.granted === undefined
      ? "; those of future nodes are unknown: pass --pod-cidr (until then, its endpoints may have any address)"
      : "";
  const mine = own.pods.map((it) => formatPrefix(it)).join(", ");
  return {
    check,
    status: "ok",
    message: `the pod addresses of ${name} (${mine}) do not overlap with those of other members${rest}${ask}`,
  };
}

function clashesOf(own: Cidrs, theirs: Cidrs, other: string): readonly string[] {
  const pairs = [
    { mine: own.pods, what: "pods", yours: theirs.pods, theirWhat: "pods" },
    { mine: own.pods, what: "pods", yours: theirs.services, theirWhat: "Services" },
    { mine: own.services, what: "Services", yours: theirs.pods, theirWhat: "pods" },
  ];
  return pairs.flatMap(({ mine, what, yours, theirWhat }) =>
    mine.flatMap((a) =>
      yours
        .filter((b) => overlaps(a, b))
        .map((b) => `${what} here have ${formatPrefix(a)}, ${theirWhat} of ${other} ${formatPrefix(b)}`),
    ),
  );
}
