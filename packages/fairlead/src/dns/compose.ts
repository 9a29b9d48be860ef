import { delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { parseSocketAddress, type SocketAddress } from "@fairlead/dns/listen-address.ts";
import { createDnsMeters } from "@fairlead/dns/meters.ts";
import { createResolver, type Forward, type ForwardList } from "@fairlead/dns/resolver.ts";
import { createResponder } from "@fairlead/dns/responder.ts";
import { startDnsServer } from "@fairlead/dns/server.ts";
import type { ZoneSync } from "@fairlead/dns/service-sync.ts";
import type { TrafficSync } from "@fairlead/fleet/dns/traffic-sync.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { type RuntimeDeps, systemDeps } from "@fairlead/base/deps.ts";
import { inClusterConfig } from "@fairlead/kube/config/in-cluster.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { type ProgramContext } from "@fairlead/base/program/program.ts";

export interface DnsFlags {
  readonly kubeconfig?: string | undefined;
  readonly listen: readonly string[];
  readonly metrics?: string | undefined;
}

export interface DnsParts {
  /** Creates the components that update the zones of `tree`. Undefined: there are none. */
  readonly zones: ((client: KubeClient, tree: RecordTree, deps: RuntimeDeps) => ZoneSync) | undefined;
  /** Makes what keeps the traffic manager's zone. */
  readonly traffic?: ((client: KubeClient, deps: RuntimeDeps) => TrafficSync) | undefined;
  /** Resources to close are added to `stack`. */
  readonly forwards: (deps: RuntimeDeps, stack: AsyncDisposableStack) => ForwardList;
  /** Whether to report readiness only once the zones are complete. Otherwise as soon as the sockets are open. */
  readonly readyWhenSynced: boolean;
  /** Whether service proxies send queries to it, so that it must keep answering for a while after it is stopped. */
  readonly isBehindProxies: boolean;
}

/** Runs a DNS server over the zones of one API server until the program is stopped. */
export async function runDns(context: ProgramContext, flags: DnsFlags, parts: DnsParts): Promise<void> {
  const { signal, log } = context;
  const listen: SocketAddress[] = flags.listen.map(parseSocketAddress);
  const metrics = createMetrics();
  const deps = systemDeps(log, metrics);
  await using stack = new AsyncDisposableStack();
  const client = stack.use(connect(await clusterConfig(flags, deps), { ...deps, userAgent: "fairlead-dns" }));
  const tree = new RecordTree();
  const traffic = parts.traffic?.(client, deps);
  const syncs = [parts.zones?.(client, tree, deps), traffic].filter((it) => it !== undefined);
  for (const sync of syncs) stack.use(sync);
  const hasSynced = (): boolean => syncs.every((it) => it.hasSynced);
  const others = parts.forwards(deps, stack);
  const forwards = withZone(others, traffic);
  const meters = stack.use(createDnsMeters(metrics));
  const isReady = (): boolean => syncs.every((it) => it === traffic || it.hasSynced);
  const resolve = createResolver({ tree, rng: deps.rng, isReady, forwards });
  const respond = createResponder({
    resolve,
    isRecursive: typeof others === "function" || others.length > 0,
    meters,
    log,
  });
  stack.use(await startDnsServer({ listen, respond, clock: deps.clock, log }));
  if (flags.metrics !== undefined) {
    const problem = (): string | undefined => {
      if (signal.aborted) return "shutting down";
      return hasSynced() ? undefined : "zones not synced";
    };
    const checks = [{ name: "zones", kind: "ready", problem } as const];
    stack.use(await serveMetrics({ metrics, address: flags.metrics, checks }));
  }
  if (!parts.readyWhenSynced) context.ready();
  try {
    await Promise.all(syncs.map((it) => it.start(signal)));
    log.info("zones are complete", { names: tree.size + (traffic?.zone.size ?? 0) });
    if (parts.readyWhenSynced) context.ready();
  } catch (error) {
    if (!signal.aborted) throw error;
    log.debug("stopped before the zones were complete", { error: messageOf(error) });
  }
  await untilAborted(signal);
  await lameDuck(parts, deps);
}

/**
 * Proxies and other servers learn a moment later that this one goes: until then it answers on, not ready any more. As long as
 * CoreDNS does by default (its plugin health, `lameduck`). Unit: milliseconds.
 */
const LAME_DUCK_MS = 5000;

async function lameDuck({ isBehindProxies }: DnsParts, { clock, log }: RuntimeDeps): Promise<void> {
  if (!isBehindProxies) return;
  log.info("shutting down: not ready, still answering", { ms: LAME_DUCK_MS });
  await delay(clock, LAME_DUCK_MS, new AbortController().signal);
}

function withZone(forwards: ForwardList, traffic: TrafficSync | undefined): ForwardList {
  if (traffic === undefined) return forwards;
  return typeof forwards === "function"
    ? (): readonly Forward[] => [...forwards(), traffic.zone]
    : [...forwards, traffic.zone];
}

function clusterConfig(
  { kubeconfig }: DnsFlags,
  { log, clock }: RuntimeDeps,
): ReturnType<typeof loadKubeconfig> {
  if (kubeconfig !== undefined) return loadKubeconfig(kubeconfig, { log, clock });
  return inClusterConfig({ env: process.env, clock });
}
