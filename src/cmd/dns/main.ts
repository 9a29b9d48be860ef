import { Command } from "@commander-js/extra-typings";
import { FleetError } from "#base/errors.ts";
import { foldName, parseName } from "#dnswire/name.ts";
import { createClusterSetSync } from "#dns/sync.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "../program.ts";
import { collect, runDns } from "./compose.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command, "parseAsync">;

/** Longest that answers may be kept: CoreDNS's bound. Unit: seconds. */
const MAX_TTL = 3600;

/** The cluster-set DNS server of one member (KEP-1645). Any number of replicas may run. */
export function command(): Program {
  return new Command("dns")
    .description("answer names of imported services: SERVICE.NAMESPACE.svc.clusterset.local")
    .option("--kubeconfig <file>", "the member's API server; default: that of the pod's cluster")
    .requiredOption("--listen <address:port>", "where to answer over UDP and TCP (repeatable)", collect)
    .option("--zone <domain>", "the zone of the cluster set", "clusterset.local")
    .option("--ttl <seconds>", "how long answers may be kept, 0 to 3600", "5")
    .option("--metrics <address:port>", "where to serve /metrics, /healthz and /readyz")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("dns", flags, async (context) => {
        const zone = { origin: parseZone(flags.zone), ttl: parseTtl(flags.ttl) };
        await runDns(context, flags, {
          zones: (client, tree, deps) => createClusterSetSync({ client, tree, zone }, deps),
          forwards: () => [],
          // A cluster that has not joined a fleet yet has no imports to wait for.
          readyWhenSynced: false,
        });
      }),
    );
}

function parseZone(text: string): ReturnType<typeof foldName> {
  try {
    return foldName(parseName(text));
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--zone must be a domain, got ${JSON.stringify(text)}`, { cause });
  }
}

function parseTtl(text: string): number {
  const ttl = Number(text);
  if (Number.isInteger(ttl) && ttl >= 0 && ttl <= MAX_TTL) return ttl;
  throw new FleetError("OPTION_INVALID", `--ttl must be a whole number from 0 to ${MAX_TTL}, got ${text}`);
}
