import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { withoutTrailing } from "@fairlead/base/text.ts";
import { ConfigError } from "./environment.ts";

/** The name of a pod's host, and how it resolves other names. Pure. */

export interface ClusterDns {
  readonly servers: readonly string[];
  readonly domain: string;
  /** Text of the machine's own resolv.conf, for `dnsPolicy: Default`. */
  readonly machine: string;
}

interface Resolver {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

/** As many as glibc reads (resolv.conf(5), MAXNS) and as the API allows. */
const MAX_SERVERS = 3;
const MAX_SEARCHES = 32;

/** Text of the container's /etc/resolv.conf: the pod's DNS policy, with its `dnsConfig` merged in. */
export function renderResolvConf(pod: Pod, dns: ClusterDns): string {
  const base = baseResolver(pod, dns);
  const { nameservers = [], searches = [], options = [] } = pod.spec?.dnsConfig ?? {};
  const resolver = {
    search: unique([...base.searches, ...searches]).slice(0, MAX_SEARCHES),
    options: mergeOptions(base.options, options),
  };
  return [
    ...keywordLine("search", resolver.search),
    ...unique([...base.servers, ...nameservers])
      .slice(0, MAX_SERVERS)
      .map((it) => `nameserver ${it}`),
    ...keywordLine("options", resolver.options),
    "",
  ].join("\n");
}

function keywordLine(keyword: string, words: readonly string[]): readonly string[] {
  return words.length > 0 ? [`${keyword} ${words.join(" ")}`] : [];
}

/** The pod's options come later and win. */
function mergeOptions(
  base: readonly string[],
  own: readonly { readonly name?: string; readonly value?: string }[],
): readonly string[] {
  const merged = new Map(base.map((it) => [it.split(":")[0] ?? it, it]));
  for (const { name = "", value = "" } of own)
    if (name !== "") merged.set(name, value === "" ? name : `${name}:${value}`);
  return [...merged.values()];
}

function baseResolver(pod: Pod, dns: ClusterDns): Resolver {
  const policy = pod.spec?.dnsPolicy ?? "ClusterFirst";
  const isCluster =
    policy === "ClusterFirstWithHostNet" || (policy === "ClusterFirst" && pod.spec?.hostNetwork !== true);
  if (policy === "None") return { servers: [], searches: [], options: [] };
  if (!isCluster) return parseResolvConf(dns.machine);
  const { domain } = dns;
  const searches = [`${pod.metadata.namespace ?? ""}.svc.${domain}`, `svc.${domain}`, domain];
  return { servers: dns.servers, searches, options: ["ndots:5"] };
}

function parseResolvConf(text: string): Resolver {
  const words = text.split("\n").map((line) => line.trim().split(/\s+/));
  const of = (keyword: string): string[] =>
    words.flatMap(([first, ...rest]) => (first === keyword ? rest : []));
  return { servers: of("nameserver"), searches: of("search"), options: of("options") };
}

function unique(list: readonly string[]): readonly string[] {
  return [...new Set(list)];
}

/** Host name of the pod's containers: a label of at most 63 characters (RFC 1035, section 2.3.4). */
export function hostnameOf(pod: Pod): string {
  const { hostname: wanted = "", hostnameOverride } = pod.spec ?? {};
  if (hostnameOverride !== undefined) return hostnameOverride;
  return wanted === "" ? withoutTrailing(pod.metadata.name.slice(0, 63), "-.") : wanted;
}

/** The pod's name with that of its subdomain; undefined where it has none. */
function qualifiedName(pod: Pod, clusterDomain: string): string | undefined {
  const { subdomain = "", hostnameOverride } = pod.spec ?? {};
  if (subdomain === "" || hostnameOverride !== undefined) return undefined;
  return `${hostnameOf(pod)}.${subdomain}.${pod.metadata.namespace ?? ""}.svc.${clusterDomain}`;
}

/** As many characters as Linux takes for a host name (gethostname(2)). */
const MAX_HOSTNAME = 64;

/**
 * What the kernel gives the pod's programs as their host name.
 *
 * @throws {ConfigError} when it is to be a full name, and that is too long.
 */
export function kernelHostname(pod: Pod, clusterDomain: string): string {
  const full = pod.spec?.setHostnameAsFQDN === true ? qualifiedName(pod, clusterDomain) : undefined;
  if (full === undefined) return hostnameOf(pod);
  if (full.length <= MAX_HOSTNAME) return full;
  const limits = `${MAX_HOSTNAME} characters is the max, ${full.length} characters requested`;
  throw new ConfigError(
    `Failed to construct FQDN from pod hostname and cluster domain, FQDN ${full} is too long (${limits})`,
  );
}

/** Text of the container's /etc/hosts. */
export function renderHosts(pod: Pod, podIPs: readonly string[], clusterDomain: string): string {
  const hostname = hostnameOf(pod);
  const { hostAliases = [] } = pod.spec ?? {};
  const full = qualifiedName(pod, clusterDomain);
  const qualified = full === undefined ? hostname : `${full}\t${hostname}`;
  return [
    "# Kubernetes-managed hosts file.",
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
    ...podIPs.map((ip) => `${ip}\t${qualified}`),
    ...(hostAliases.length > 0 ? ["", "# Entries added by HostAliases."] : []),
    ...hostAliases.map(({ ip, hostnames = [] }) => `${ip}\t${hostnames.join("\t")}`),
    "",
  ].join("\n");
}
