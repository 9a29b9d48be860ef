import { hostname } from "node:os";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { compileHealth } from "#member/health.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { runWebhook, type WebhookOptions } from "@fairlead/fleet/hub/webhook/webhook.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { annotationsOf, runElected } from "#shared/leader.ts";
import { createManagerParts, type ManagerFlags } from "#shared/manager.ts";
import { keepPresence } from "#shared/presence.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { type ProgramContext } from "@fairlead/base/program/program.ts";

export interface HubRun extends ManagerFlags {
  readonly kubeconfig?: string | undefined;
  /** In the place of a kubeconfig. */
  readonly config?: ClusterConfig;
  readonly isElected: boolean;
  /** As which it is elected. Default: a random one. */
  readonly identity?: string;
  readonly leases: readonly string[];
  /** Default: fleet-system. */
  readonly leaseNamespace?: string;
  /** The addresses of metrics and probes; each serves both. */
  readonly servers: readonly { readonly address: string; readonly flag: string }[];
  readonly hub: Parameters<typeof startHub>[1];
  /** Default: no webhook. */
  readonly webhook?: WebhookOptions | undefined;
}

/** Runs the hub's controllers until the program is stopped. A standby replica is ready, too. */
export async function runHub({ signal, log, ready }: ProgramContext, run: HubRun): Promise<void> {
  const { deps, metrics, health } = createManagerParts(log, run);
  await using stack = new AsyncDisposableStack();
  const config = run.config ?? (await clusterConfig(run.kubeconfig, deps));
  const client = stack.use(connect(config, { ...deps, userAgent: "fairlead-hub" }));
  for (const server of run.servers) stack.use(await serveMetrics({ ...server, metrics, checks: health }));
  const { leases, leaseNamespace, isElected, identity, webhook } = run;
  const serving = webhook && stack.use(await runWebhook(client, webhook, deps, signal));
  // Where one process serves it, at an address that changes, it does not wait for its Lease.
  const kept = webhook?.address === undefined ? serving?.keep(signal) : undefined;
  const namespace = leaseNamespace === undefined ? {} : { namespace: leaseNamespace };
  const election = { client, leases, ...namespace, side: "hub", isElected, identity, deps } as const;
  await runElected(election, signal, async (leading) => {
    const own = LEASES_OF.hub[0];
    if (!isElected && leases.includes(own)) {
      const at = { namespace: leaseNamespace ?? FLEET_SYSTEM_NAMESPACE, name: own };
      const lease = { ...at, identity: hostname(), annotations: annotationsOf("hub") };
      void keepPresence(client, lease, deps, leading);
    }
    const configured = kept ?? serving?.keep(leading);
    const hub = { compileRule: compileHealth, servers: addressOfServer(config), ...run.hub };
    await using _hub = await startHub(client, hub, deps, leading);
    await configured;
    ready();
    await untilAborted(leading);
  });
}

/** The address of an API server, where its URL has one in the place of a name. */
function addressOfServer({ server }: ClusterConfig): IpAddress[] {
  const { hostname: host } = new URL(server);
  const address = tryParseAddress(host.startsWith("[") ? host.slice(1, -1) : host);
  return address === undefined ? [] : [address];
}
