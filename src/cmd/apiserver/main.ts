import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { Command, Option } from "@commander-js/extra-typings";
import { startApiServer } from "#apiserver/server.ts";
import { FleetError } from "#base/errors.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram, untilAborted } from "../program.ts";

/** `fairlead apiserver`: the embedded Kubernetes API server as a program of its own. */
export function command(): Command {
  const program = new Command("apiserver")
    .description("serve the Kubernetes API from this machine")
    .requiredOption("--data <folder>", "keys, the admin's kubeconfig (admin.kubeconfig) and the journal")
    .option("--port <number>", "TCP port; 0 takes a free one", parsePort, 6443)
    .option("--bind-address <address>", "address to listen on", "127.0.0.1")
    .option("--advertise-address <address>", "address under which the cluster reaches the server")
    .option(
      "--service-cluster-ip-range <cidrs>",
      "ranges of Service addresses: IPv4, IPv6 or both",
      splitList,
    )
    .option("--external-san <name>", "further name or address in the certificate; repeatable", collect, [])
    .addOption(
      new Option("--journal <kind>", "where changes are kept").choices(["sqlite", "none"]).default("sqlite"),
    )
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG);
  return program.action((flags) =>
    runProgram("apiserver", flags, async ({ signal, log, ready }) => {
      makeFolder(resolve(flags.data));
      await using server = await startApiServer({
        dataDir: flags.data,
        port: flags.port,
        bindAddress: flags.bindAddress,
        journal: flags.journal === "none" ? "none" : "sqlite",
        externalSans: flags.externalSan,
        log,
        ...(flags.advertiseAddress === undefined ? {} : { advertiseAddress: flags.advertiseAddress }),
        ...(flags.serviceClusterIpRange === undefined ? {} : { serviceRanges: flags.serviceClusterIpRange }),
      });
      log.info("serving", { url: server.url });
      ready();
      await untilAborted(signal);
    }),
  );
}

/** Step by step: asked for all steps at once, Node never comes back from below a folder that cannot hold any (`/proc`). */
function makeFolder(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) return;
  if (found !== undefined)
    throw new FleetError("OPTION_INVALID", `--data must be a folder, and ${path} is a file`);
  makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--data: cannot make the folder ${path}`, { cause });
  }
}

function parsePort(text: string): number {
  const port = Number(text);
  if (/^[0-9]+$/.test(text) && port <= 65_535) return port;
  throw new FleetError("OPTION_INVALID", `--port must be a number from 0 to 65535, got ${text}`);
}

function splitList(text: string): string[] {
  return text.split(",").map((it) => it.trim());
}

function collect(text: string, before: string[]): string[] {
  return [...before, text];
}
