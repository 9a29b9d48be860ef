import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { HUB_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { makeFolder, parseAddress } from "@fairlead/apiserver/program/parse.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { parseWhole, PORTS } from "@fairlead/base/program/flags.ts";
import type { ProgramContext } from "@fairlead/base/program/program.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { runHub, type HubRun } from "./run.ts";

/** A hub without a cluster: the API server and the hub's controllers in one process. */

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
  run: Omit<HubRun, "kubeconfig" | "isElected">,
): Promise<void> {
  await using server = await serve(context, flags);
  const { signal, log } = context;
  log.info("serving", { url: server.url, kubeconfig: server.kubeconfig });
  await prepare(server, context);
  await runHub({ ...context, signal }, { ...run, kubeconfig: server.kubeconfig, isElected: false });
}

async function serve({ log }: ProgramContext, flags: EmbeddedFlags): Promise<ApiServer> {
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
    // Members join with tokens.
    authentication: { bootstrapTokens: true },
    log,
    ...(flags.advertiseAddress === undefined
      ? {}
      : { advertiseAddress: parseAddress(flags.advertiseAddress) }),
  });
}

/** What `fairlead join` or a chart install on the hub of a cluster. */
async function prepare(server: ApiServer, { log, signal }: ProgramContext): Promise<void> {
  const deps = systemDeps(log, createMetrics());
  const config = await clusterConfig(server.kubeconfig, deps);
  await using client = connect(config, { ...deps, userAgent: "fairlead-hub" });
  await ensureNamespace(client, FLEET_SYSTEM_NAMESPACE, signal);
  await installCrds(client, { crds: HUB_CRDS, fieldManager: HUB_MANAGER }, deps, signal);
}
