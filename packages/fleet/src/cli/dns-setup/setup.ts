import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { reverseDomains } from "@fairlead/dns/reverse.ts";
import { MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { type DnsPlan, planDns } from "./plan.ts";
import type { Stanza } from "./stanza.ts";
import { dnsReplicas, fleetDnsAddresses, fleetImage, verifyInPod } from "./verify.ts";
import { DNS_NAMESPACE, readDns, restartDns, writeEdit } from "./write.ts";

export interface DnsSetupOptions {
  /** The first is that of KEP-1645: the one that a pod verifies. */
  readonly zones: readonly [string, ...string[]];
  /** Prefixes whose reverse names are forwarded too. Default: those of the parallel network that the cluster is in. */
  readonly reverse?: readonly Prefix[];
  /** The DNS servers of the zones. Default: the Service of the member's chart. */
  readonly addresses?: readonly string[];
  /** The image of the verification pod. Default: the image of the cluster-set DNS in this cluster. */
  readonly image?: string;
  /** Whether a pod has to resolve names before all is well. */
  readonly verify: boolean;
  /** How long the cluster's DNS may take until it knows the zone. Unit: seconds. */
  readonly seconds: number;
}

export interface DnsSetupDeps extends RuntimeDeps {
  /** Receives each step, for people. */
  readonly progress: (step: string) => void;
}

/** What `setUpDns` would change. */
export async function previewDns(
  client: KubeClient,
  options: DnsSetupOptions,
  signal: AbortSignal,
): Promise<DnsPlan> {
  return planDns(await readDns(client, signal), await stanzaOf(client, options, signal));
}

/**
 * Configures the DNS of a cluster to forward the cluster-set zone, and verifies from a pod that names of the zone and of
 * the cluster resolve. If they do not, it restores the configuration. A second run only verifies.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` when the cluster's DNS is not understood; `TIMED_OUT` when names do not resolve.
 */
export async function setUpDns(
  client: KubeClient,
  options: DnsSetupOptions,
  deps: DnsSetupDeps,
  signal: AbortSignal,
): Promise<void> {
  const stanza = await stanzaOf(client, options, signal);
  const image = options.verify ? await imageOf(client, options, signal) : undefined;
  const plan = planDns(await readDns(client, signal), stanza);
  await carryOut(client, plan, deps, signal);
  for (const hint of plan.hints) deps.progress(hint);
  if (image === undefined) {
    deps.progress("not verified (--no-verify)");
    return;
  }
  try {
    // Restarted pods start with the zone, and the pods that exist now are about to be deleted.
    const replicas = plan.reloads ? await dnsReplicas(client, signal) : [];
    await verifyInPod(
      client,
      { image, zone: stanza.zones[0], replicas, isGone: false, seconds: options.seconds },
      deps,
      signal,
    );
  } catch (error) {
    throw await takenBack(client, plan, deps, error);
  }
  deps.progress(`pods resolve names of ${stanza.zones[0]}`);
}

/**
 * Removes the configuration that `setUpDns` wrote, and waits until no replica of the cluster's DNS answers for the zone.
 *
 * @throws {FleetError} `TIMED_OUT` when one still does; the configuration is without the zone then.
 */
export async function undoDns(
  client: KubeClient,
  options: DnsSetupOptions,
  deps: DnsSetupDeps,
  signal: AbortSignal,
): Promise<void> {
  const plan = planDns(await readDns(client, signal), undefined);
  await carryOut(client, plan, deps, signal);
  if (plan.edits.length === 0) return;
  const image = options.verify ? (options.image ?? (await fleetImage(client, signal))) : undefined;
  if (image === undefined) {
    deps.progress(
      "not verified: each replica of the cluster's DNS serves the zone until it reloads its configuration",
    );
    return;
  }
  const { zones, seconds } = options;
  const [zone] = zones;
  const replicas = plan.reloads ? await dnsReplicas(client, signal) : [];
  await verifyInPod(client, { image, zone, replicas, isGone: true, seconds }, deps, signal);
  deps.progress(`the cluster's DNS no longer answers for ${zone}`);
}

async function stanzaOf(
  client: KubeClient,
  { zones, reverse, addresses }: DnsSetupOptions,
  signal: AbortSignal,
): Promise<Stanza> {
  const found = addresses ?? (await fleetDnsAddresses(client, signal));
  const prefixes = reverse ?? (await fleetPrefixes(client, signal));
  const all = [...zones, ...prefixes.flatMap(reverseDomains)] as const;
  if (found.length > 0) return { zones: all, addresses: found };
  throw new FleetError(
    "PRECONDITION_FAILED",
    "fleet-system has no Service of the cluster-set DNS: install the chart fairlead-member with dns.enabled, or pass --dns-address",
  );
}

/** Of fleet addresses; none where the cluster has no parallel network. */
async function fleetPrefixes(client: KubeClient, signal: AbortSignal): Promise<readonly Prefix[]> {
  try {
    const { items } = await client.list(MESH_NETWORKS, { namespace: FLEET_SYSTEM_NAMESPACE, signal });
    return items
      .flatMap(({ spec }) => (spec.mode === "parallel" ? [spec.ipv4, spec.ipv6] : []))
      .flatMap((it) => tryParsePrefix(it) ?? []);
  } catch (error) {
    // A cluster whose CRDs are older.
    if (hasCode(error, "API_NOT_FOUND")) return [];
    throw error;
  }
}

async function imageOf(client: KubeClient, { image }: DnsSetupOptions, signal: AbortSignal): Promise<string> {
  const found = image ?? (await fleetImage(client, signal));
  if (found !== undefined) return found;
  throw new FleetError(
    "PRECONDITION_FAILED",
    "cannot determine an image for the verification pod; pass --image or --no-verify",
  );
}

async function carryOut(
  client: KubeClient,
  plan: DnsPlan,
  deps: DnsSetupDeps,
  signal: AbortSignal,
): Promise<void> {
  if (plan.edits.length === 0) deps.progress("the cluster's DNS is already configured");
  const done: DnsPlan["edits"][number][] = [];
  try {
    for (const edit of plan.edits) {
      await writeEdit(client, edit, plan.zones, signal);
      done.push(edit);
      deps.progress(`wrote ${edit.key} of ConfigMap ${DNS_NAMESPACE}/${edit.configMap}`);
    }
  } catch (error) {
    throw await takenBack(client, { ...plan, edits: done }, deps, error);
  }
  await restartIfNeeded(client, plan, deps, signal);
}

async function restartIfNeeded(
  client: KubeClient,
  { reloads, edits }: DnsPlan,
  deps: DnsSetupDeps,
  signal: AbortSignal,
): Promise<void> {
  if (reloads || edits.length === 0) return;
  await restartDns(client, deps, signal);
  deps.progress("CoreDNS does not reload its configuration: restarting its pods");
}

/** Restores the previous configuration, even after an interrupt, and reports the outcome. */
async function takenBack(
  client: KubeClient,
  plan: DnsPlan,
  deps: DnsSetupDeps,
  problem: unknown,
): Promise<unknown> {
  if (plan.edits.length === 0) return problem;
  const signal = new AbortController().signal;
  try {
    for (const edit of plan.edits.toReversed()) {
      const { before, after } = edit;
      const hadZones = plan.zones.filter((zone) => before?.includes(zone) === true);
      const back = { ...edit, before: after, after: before };
      await writeEdit(client, back, hadZones, signal);
    }
    await restartIfNeeded(client, plan, deps, signal);
  } catch (error) {
    return new FleetError(
      "API_CONFLICT",
      `${messageOf(problem)}; and the previous configuration cannot be restored: ${messageOf(error)}; run "fairlead dns setup --undo" to remove the zone`,
    );
  }
  return new FleetError(
    "TIMED_OUT",
    `${messageOf(problem)}; the previous configuration of the cluster's DNS was restored`,
  );
}
