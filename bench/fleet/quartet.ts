/** The managers under the names that fleet-networking calls its own by, on three API servers, without any other program. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NAMESPACES, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_NET_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { CLUSTER_ROLE_BINDINGS } from "@fairlead/kube/api/rbac/v1/types.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { requestToken } from "@fairlead/kube/client/token-request.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { startApi, startProgram } from "./programs.ts";
import type { FleetClients } from "./trio.ts";

export interface Quartet extends AsyncDisposable {
  readonly clients: FleetClients;
  /** Of the programs: hub, exporter, importer and mcs. */
  readonly pids: ReadonlyMap<string, number>;
  /** Of the API servers. */
  readonly servers: readonly number[];
}

const deps = systemDeps(silentLogger);
const ACCOUNT = "agent";

/**
 * @param checkout - Where the managers come from. Default: this checkout.
 * @param serversOf - Where the API servers come from. Default: this checkout.
 */
export async function startQuartet(
  checkout: string | undefined,
  signal: AbortSignal,
  serversOf?: string,
): Promise<Quartet> {
  const servers: number[] = [];
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "fairlead-bench-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const cluster = async (name: string): Promise<Cluster> => {
    const api = stack.use(await startApi(name, serversOf));
    servers.push(...api.pids);
    const config = await loadKubeconfig(api.kubeconfig);
    const client = stack.use(connect(config, deps));
    const crds = name === "hub" ? HUB_NET_CRDS : MEMBER_CRDS;
    await installCrds(client, { crds, fieldManager: "bench" }, deps, signal);
    return { kubeconfig: api.kubeconfig, config, client };
  };
  const pids = new Map<string, number>();
  const begin = async (role: string, args: readonly string[], env: Record<string, string>): Promise<void> => {
    const program = stack.use(await startProgram(args, { checkout, env, isSilent: true }));
    pids.set(role, program.pid);
  };
  const hub = await cluster("hub");
  await begin("hub", ["hub-net-controller-manager", `--kubeconfig=${hub.kubeconfig}`, ...SILENT.hub], {});
  const members = { exporter: await cluster("exporter"), importer: await cluster("importer") };
  for (const [name, { kubeconfig }] of Object.entries(members)) {
    const env = await register(hub, { name, folder }, signal);
    const flag = `--kubeconfig=${kubeconfig}`;
    await begin(name, ["member-net-controller-manager", flag, ...SILENT.member], env);
    if (name === "importer") await begin("mcs", ["mcs-controller-manager", flag, ...SILENT.mcs], env);
  }
  const clients = { hub: hub.client, exporter: members.exporter.client, importer: members.importer.client };
  const held = stack.move();
  return { clients, pids, servers, [Symbol.asyncDispose]: () => held.disposeAsync() };
}

interface Cluster {
  readonly kubeconfig: string;
  readonly config: ClusterConfig;
  readonly client: KubeClient;
}

/** Several programs of one machine cannot all serve their metrics at the same address. */
const nowhere = (flags: readonly string[]): readonly string[] => flags.map((it) => `--${it}-bind-address=0`);
const SILENT = {
  hub: nowhere(["metrics", "health-probe"]),
  member: nowhere(["hub-metrics", "hub-health-probe", "member-metrics", "member-health-probe"]),
  mcs: nowhere(["hub-metrics", "hub-health-probe", "metrics", "health-probe"]),
};

/** Gives a member its member namespace and an identity. @returns the settings by which its programs find the hub. */
async function register(
  hub: Cluster,
  { name, folder }: { readonly name: string; readonly folder: string },
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const namespace = mailboxOf(name);
  await hub.client.create(NAMESPACES, { metadata: { name: namespace } }, { signal });
  await hub.client.create(SERVICE_ACCOUNTS, { metadata: { namespace, name: ACCOUNT } }, { signal });
  // The bench does not measure permissions.
  await hub.client.create(
    CLUSTER_ROLE_BINDINGS,
    {
      metadata: { name: namespace },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
      subjects: [{ kind: "ServiceAccount", namespace, name: ACCOUNT }],
    },
    { signal },
  );
  const token = await requestToken(hub.client, { namespace, name: ACCOUNT, seconds: 3600 }, signal);
  const tokenFile = join(folder, `${name}.token`);
  await writeFile(tokenFile, token, { mode: 0o600 });
  return {
    HUB_SERVER_URL: hub.config.server,
    CONFIG_PATH: tokenFile,
    HUB_CERTIFICATE_AUTHORITY: Buffer.from(hub.config.ca ?? "").toString("base64"),
    MEMBER_CLUSTER_NAME: name,
  };
}
