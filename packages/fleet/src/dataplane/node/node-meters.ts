import type { AddressBlock, Allocation } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Metrics } from "@fairlead/base/metrics.ts";
import { hostRange } from "@fairlead/base/netaddr/allocator.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { nodeAddress } from "../pod-attachment/addresses.ts";
import type { Attached } from "./attachments.ts";

/** What metrics show of a node, besides its tunnels and the passes of its controller. */
export interface NodeFigures {
  /** By how pods are reached. */
  readonly pods: Readonly<Record<"attached" | "translated" | "starting" | "without_address", number>>;
  /** IPv4 addresses of the node's block. */
  readonly addresses: Readonly<Record<"used" | "released" | "free", number>>;
  /** Addresses and ports that are open to other clusters. */
  readonly exposed: number;
  /** The node's own fleet addresses. */
  readonly own: { readonly IPv4: string; readonly IPv6: string };
}

interface Pass {
  readonly allocations: readonly Allocation[];
  readonly attached: Pick<Attached, "isAttached" | "isReachable">;
  readonly exhausted: number;
  readonly exposed: number;
}

export function nodeFigures(
  { ipv4, ipv6 }: AddressBlock["spec"],
  { allocations, attached, exhausted, exposed }: Pass,
): NodeFigures {
  const used = allocations.filter((it) => it.releasedAt === undefined);
  const translated = used.filter((it) => !attached.isAttached(it.podUID)).length;
  const reachable = used.filter((it) => attached.isReachable(it.podUID)).length;
  // The first address of the first prefix is the node's own.
  const all = ipv4.reduce((sum, it) => sum + sizeOf(it), 0) - 1;
  const firstOf = (prefixes: readonly string[]): string =>
    prefixes[0] === undefined ? "" : nodeAddress(prefixes[0]);
  return {
    pods: {
      attached: reachable - translated,
      translated,
      starting: used.length - reachable,
      without_address: exhausted,
    },
    addresses: {
      used: used.length,
      released: allocations.length - used.length,
      free: Math.max(0, all - allocations.length),
    },
    exposed,
    own: { IPv4: firstOf(ipv4), IPv6: firstOf(ipv6) },
  };
}

function sizeOf(prefix: string): number {
  const { first, last } = hostRange(parsePrefix(prefix));
  return Number(last) - Number(first) + 1;
}

export interface NodeView {
  /** Undefined while the node is in no parallel network. */
  readonly node: NodeFigures | undefined;
  /** The result of the self-test; undefined before the first one. */
  readonly host: NewCondition | undefined;
}

export function createNodeMeters(metrics: Metrics, read: () => NodeView): Disposable {
  const gauge = (name: string, help: string, labels: readonly string[] = []) =>
    metrics.gauge({ name: `fairlead_node_${name}`, help, labels });
  const pods = gauge("pods", "Pods with fleet addresses, by how they are reached.", ["state"]);
  const addresses = gauge("addresses", "IPv4 addresses of the node's block.", ["state"]);
  const exposed = gauge("exposed_ports", "Addresses and ports that are open to other clusters.");
  const broken = gauge(
    "host_route_broken",
    "1 while the self-test of the node's route to fleet addresses fails.",
  );
  return metrics.onRender(() => {
    const { node, host } = read();
    for (const [state, value] of Object.entries(node?.pods ?? {})) pods.set({ state }, value);
    for (const [state, value] of Object.entries(node?.addresses ?? {})) addresses.set({ state }, value);
    exposed.set({}, node?.exposed ?? 0);
    broken.set({}, Number(host?.status === "False"));
  });
}
