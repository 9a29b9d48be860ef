import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { familyOf, formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsPrefix, formatPrefix, parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { canonicalInterval } from "@fairlead/os/nft/datatype.ts";
import type { Family } from "./names.ts";

/** The addresses of a Service. */
export interface Frontend {
  readonly text: string;
  readonly family: Family;
  /**
   * - `cluster`: an address of the cluster.
   * - `balancer`: assigned by a load balancer. Packets also come from outside the cluster.
   * - `external`: an external IP of the Service. Its other ports do not belong to the Service.
   * - `node`: an address of this node, at a port that the Service has on every node.
   */
  readonly kind: "cluster" | "balancer" | "external" | "node";
}

/** Another proxy serves it (well-known label). */
const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";

/**
 * All addresses by which a Service is reached on this node. As in kube-proxy, a family in which the Service has no address
 * of the cluster is left alone, whatever else it says: its ports there are free for others.
 */
export function frontendsOf(service: Service, nodeAddresses: readonly string[]): readonly Frontend[] {
  const { spec, status, metadata } = service;
  if (spec === undefined || spec.type === "ExternalName" || metadata.labels?.[PROXY_NAME_LABEL] !== undefined)
    return [];
  const own = spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP]);
  // A headless Service has none of all these, whatever else it says.
  if (own[0] === "None") return [];
  const hasNodePorts = spec.type === "NodePort" || spec.type === "LoadBalancer";
  const cluster = own.flatMap((text) => frontend(text, "cluster"));
  const others = [
    ...(spec.type === "LoadBalancer"
      ? givenAddresses(status).flatMap((text) => frontend(text, "balancer"))
      : []),
    ...(spec.externalIPs ?? []).flatMap((text) => frontend(text, "external")),
    ...(hasNodePorts ? nodeAddresses : []).flatMap((text) => frontend(text, "node")),
  ];
  const families = new Set(cluster.map((it) => it.family));
  return [...cluster, ...others.filter((it) => families.has(it.family))];
}

/** With ipMode "Proxy" the load balancer rewrites the destination itself (KEP-1860). */
function givenAddresses(status: Service["status"]): readonly string[] {
  const ingress = status?.loadBalancer?.ingress ?? [];
  return ingress.filter((it) => it.ipMode !== "Proxy").flatMap((it) => it.ip ?? []);
}

function frontend(text: string, kind: Frontend["kind"]): readonly Frontend[] {
  const address = tryParseAddress(text);
  if (address === undefined) return [];
  return [{ text: formatAddress(address), family: familyOf(address) === "IPv4" ? "4" : "6", kind }];
}

/**
 * The sources that may use a load balancer's address, or undefined where all may. Without a prefix of a family that
 * family is open, as in kube-proxy.
 */
export function sourceRanges(
  service: Service,
  { kind, text, family }: Frontend,
): readonly string[] | undefined {
  const { loadBalancerSourceRanges = [] } = service.spec ?? {};
  if (kind !== "balancer") return undefined;
  const prefixes = loadBalancerSourceRanges
    .flatMap((range) => tryParsePrefix(range.trim()))
    .filter((prefix) => prefix.family === (family === "4" ? "IPv4" : "IPv6"));
  // A node that has the address itself asks from it.
  if (prefixes.length === 0 || prefixes.some((prefix) => prefix.length === 0)) return undefined;
  const type = family === "4" ? "ipv4_addr" : "ipv6_addr";
  return [...prefixes.map((prefix) => canonicalInterval(type, formatPrefix(prefix))), text];
}

function tryParsePrefix(text: string): Prefix[] {
  try {
    return [parsePrefix(text)];
  } catch {
    // An API server lets none such through.
    return [];
  }
}

/** Prefixes without those that lie inside another: nftables refuses overlaps. */
export function withoutNested(texts: readonly string[]): readonly string[] {
  const prefixes = [...new Map(texts.map((text) => [text, parsePrefix(asPrefix(text))]))];
  return prefixes
    .filter(([text, it]) =>
      prefixes.every(
        ([other, outer]) =>
          other === text ||
          !containsPrefix(outer, it) ||
          // Of two spellings of one prefix the first stays.
          (containsPrefix(it, outer) && text < other),
      ),
    )
    .map(([text]) => text);
}

function asPrefix(text: string): string {
  if (text.includes("/")) return text;
  return `${text}/${text.includes(":") ? 128 : 32}`;
}
