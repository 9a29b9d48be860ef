import { randomBytes } from "node:crypto";
import { makeFolder, parseAddress } from "@fairlead/apiserver/program/parse.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { parseWhole, PORTS } from "@fairlead/base/program/flags.ts";
import type { ProgramContext } from "@fairlead/base/program/program.ts";
import { HUB_LEASE } from "@fairlead/fleet/cli/fleet/hub-program.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { type ClusterConfig, fixedCredentials } from "@fairlead/kube/config/config.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { PAUSED_ANNOTATION } from "@fairlead/kube/election/leader.ts";
import { installHub } from "#shared/install-hub.ts";
import { runHub, type HubRun } from "./run.ts";

/** A hub without a cluster: the API server and the hub's controllers in one process. */

/** The hub's own user: an administrator's writes pass the webhook, and the hub's do not. */
const USER = "fairlead:hub";
/** Asked by this process alone. */
const WEBHOOK = { listen: "127.0.0.1:0" };
/** In the form of other holders, by which the agents of members in the same cluster know a hub's program. */
const IDENTITY = "embedded_fairlead-hub-embedded";

export interface EmbeddedFlags {
  readonly embedded?: true | undefined;
  readonly data?: string | undefined;
  readonly kubeconfig?: string | undefined;
  readonly port: string;
  readonly bindAddress: string;
  readonly advertiseAddress?: string | undefined;
  readonly externalSan?: string[] | undefined;
}

/** Runs both until the program is stopped: the controllers first, then the API server. */
export async function runEmbeddedHub(
  context: ProgramContext,
  flags: EmbeddedFlags,
  run: Omit<HubRun, "kubeconfig" | "config" | "isElected">,
): Promise<void> {
  // It exists in the memory of this process only, and ends with it.
  const token = randomBytes(32).toString("base64url");
  await using server = await serve(context, flags, token);
  const { signal, log } = context;
  log.info("serving", { url: server.url, kubeconfig: server.kubeconfig });
  const admin = await loadKubeconfig(server.kubeconfig);
  await install(admin, context);
  const config = { ...admin, credentials: fixedCredentials({ token }) };
  // Elected, so that its Lease can be paused; its own folder has no other process.
  const elected = { isElected: true, identity: IDENTITY };
  const hub = { ...run.hub, hasPolicies: true };
  await runHub({ ...context, signal }, { ...run, hub, webhook: run.webhook ?? WEBHOOK, config, ...elected });
}

async function serve({ log }: ProgramContext, flags: EmbeddedFlags, token: string): Promise<ApiServer> {
  if (flags.data === undefined)
    throw new FleetError(
      "OPTION_INVALID",
      "--embedded needs --data, the folder of the hub's keys and objects",
    );
  if (flags.kubeconfig !== undefined)
    throw new FleetError("OPTION_INVALID", "--embedded and --kubeconfig exclude each other: choose one hub");
  makeFolder(flags.data);
  return startApiServer({
    dataDir: flags.data,
    port: parseWhole("--port", flags.port, PORTS),
    bindAddress: parseAddress(flags.bindAddress),
    externalSans: flags.externalSan ?? [],
    // Nothing makes ServiceAccounts here, without which the plugin would refuse a pod before the policy says why.
    disabledAdmissionPlugins: ["ServiceAccount"],
    // Members join with tokens.
    authentication: { bootstrapTokens: true, staticTokens: new Map([[token, { name: USER, groups: [] }]]) },
    log,
    ...(flags.advertiseAddress === undefined
      ? {}
      : { advertiseAddress: parseAddress(flags.advertiseAddress) }),
  });
}

async function install(admin: ClusterConfig, { log, signal, ready }: ProgramContext): Promise<void> {
  const deps = systemDeps(log, createMetrics());
  await using client = connect(admin, { ...deps, userAgent: "fairlead-hub" });
  await installHub(client, USER, deps, signal);
  const lease = await client.find(LEASES, HUB_LEASE, { signal });
  // Its fleet is with another hub: it serves, and its controllers do not run.
  if (lease?.metadata.annotations?.[PAUSED_ANNOTATION] !== undefined) ready();
}
