import { printText } from "@fairlead/base/print.ts";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { Command } from "@commander-js/extra-typings";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { readVersions, renderVersions, type Versions } from "@fairlead/fleet/cli/fleet/versions.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { HUB_KUBECONFIG_FLAG, HUB_READER_FLAG } from "#shared/on-hub.ts";
import { resultOption } from "#shared/output.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

interface Flags {
  readonly client?: true | undefined;
  readonly kubeconfig?: string | undefined;
  readonly hubContext?: string | undefined;
  readonly hubKubeconfig?: string | undefined;
}

/** The version of this executable, and of the programs of the fleet that the current context is the hub of. */
export function command(): Program {
  return new Command("version")
    .description("print the versions of this executable, the hub and the members, and how they differ")
    .option("--client", "print the version of this executable only")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_READER_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action((flags) =>
      runForPeople("version", async ({ deps, signal }) => {
        const client: Versions = { client: { version: VERSION } };
        const versions = asksHub(flags) ? await ofFleet(flags, deps, signal) : client;
        printText(renderVersions(versions ?? client, flags.output));
      }),
    );
}

const isNamed = (flags: Flags): boolean =>
  (flags.kubeconfig ?? flags.hubContext ?? flags.hubKubeconfig) !== undefined;

/** Without any kubeconfig there is no hub to ask. */
function asksHub(flags: Flags): boolean {
  if (flags.client === true) return false;
  const { KUBECONFIG = "" } = process.env;
  return isNamed(flags) || KUBECONFIG !== "" || existsSync(join(homedir(), ".kube", "config"));
}

/** Undefined if the current context cannot be read, or is not a hub; one that a flag names must be. */
async function ofFleet(flags: Flags, deps: RuntimeDeps, signal: AbortSignal): Promise<Versions | undefined> {
  try {
    const named = { file: flags.hubKubeconfig, context: flags.hubContext };
    const config = await loadContext(named, flags.kubeconfig, process.env);
    await using hub = connect(config, deps);
    await checkReachable(hub, { who: "the hub", config }, deps, signal);
    return await readVersions(hub, VERSION, signal).catch((error: unknown) => {
      if (!hasCode(error, "API_NOT_FOUND")) throw error;
      const message = `${config.server} is not a hub; name the context of the hub with --hub-context`;
      throw new FleetError("OPTION_INVALID", message, { cause: error });
    });
  } catch (error) {
    if (isNamed(flags) || signal.aborted) throw error;
    sayStep(`only the client's version is known: ${messageOf(error)}`);
    return undefined;
  }
}
