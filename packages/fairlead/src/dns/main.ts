import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { foldName, parseName } from "@fairlead/dns/wire/name.ts";
import { createClusterSetSync } from "@fairlead/fleet/dns/sync.ts";
import { createTrafficSync } from "@fairlead/fleet/dns/traffic-sync.ts";
import { FLAGS } from "#shared/flags.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { collect, parseWhole } from "@fairlead/base/program/flags.ts";
import { resultOption } from "#shared/output.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { type DnsParts, runDns } from "./compose.ts";

/** Longest that answers may be kept: CoreDNS's bound. Unit: seconds. */
const MAX_TTL = 3600;
const ZONE_FLAG = ["--zone <domain>", "the cluster-set zone", "clusterset.local"] as const;
const FLEETBOARD_FLAG = [
  "--fleetboard-zone <domain>",
  "zone with the same services under the names of Fleetboard",
  "fleetboard.local",
] as const;
const NO_FLEETBOARD_FLAG = ["--no-fleetboard-zone", "leave out the zone of Fleetboard"] as const;

/** The cluster-set DNS server of one member (KEP-1645), and commands that see that it is asked. */
export function command(): Command {
  // Flags of the server and of the others have names in common: what follows a word belongs to it.
  const dns = new Command("dns").enablePositionalOptions();
  addServer(dns);
  dns
    .command("check")
    .description("fail unless names of the cluster-set zone resolve")
    .option(...ZONE_FLAG)
    .option(
      "--server <address>",
      "DNS server to query, HOST or HOST:PORT; default: the DNS of this machine or pod",
    )
    .option(
      "--also <address>",
      "another server that must answer, for example a replica of that DNS (repeatable)",
      collect,
    )
    .option("--gone", "fail while any of the servers answers for the zone")
    .option("--name <name>", "another name that must resolve, such as kubernetes.default.svc")
    .option(FLAGS.timeout, "how long to retry, 0 to 600", "10")
    .action(async (flags) => (await import("./check.ts")).check(flags));
  dns
    .command("setup")
    .description("configure the cluster DNS to forward the cluster-set zone, and verify it")
    .option(...KUBECONFIG_FLAG)
    .option(
      FLAGS.context,
      "kubeconfig context with administrator access to the member; default: the current context",
    )
    .option(...ZONE_FLAG)
    .option(...FLEETBOARD_FLAG)
    .option(...NO_FLEETBOARD_FLAG)
    .option(
      "--reverse <cidr>",
      "prefix whose reverse names are forwarded too (repeatable); default: those of the cluster's parallel network",
      collect,
    )
    .option(
      "--dns-address <address>",
      "DNS server of the zone; default: the Service of the chart (repeatable)",
      collect,
    )
    .option(FLAGS.image, "image of the verification pod; default: the image of that Service's pods")
    .option(
      "--no-verify",
      "do not verify from a pod that the cluster DNS serves the zone, or with --undo that it does not",
    )
    .option(FLAGS.timeout, "time limit for the cluster DNS to serve the zone, 1 to 600", "180")
    .option(FLAGS.dryRun, "print the planned changes without applying them")
    .option("--undo", "remove the configuration written by this command")
    .addOption(resultOption())
    .action(async (flags) => (await import("./setup.ts")).setup(flags));
  return dns;
}

/** Any number of replicas may run. */
function addServer(dns: Command): void {
  dns
    .description("answer names of imported services: SERVICE.NAMESPACE.svc.clusterset.local")
    .option(FLAGS.kubeconfig, "the member's API server; default: that of the pod's cluster")
    .option("--listen <address:port>", "address to serve UDP and TCP on (repeatable)", collect)
    .option(...ZONE_FLAG)
    .option(...FLEETBOARD_FLAG)
    .option(...NO_FLEETBOARD_FLAG)
    .option("--ttl <seconds>", "TTL of the answers, 0 to 3600", "5")
    .option("--traffic-zone <domain>", "zone of TrafficManagerProfiles to answer for in addition")
    .option("--traffic-only", "answer for --traffic-zone only; for a hub, which imports no services")
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action(({ listen, ...flags }) => {
      // Not a required option: those of a command are asked of its subcommands too.
      if (listen === undefined) dns.error("required option '--listen <address:port>' not specified");
      return runProgram("dns", flags, async (context) => {
        const ttl = parseWhole("--ttl", flags.ttl, { min: 0, max: MAX_TTL });
        const zone = { origin: parseZone("--zone", flags.zone), ttl };
        const { trafficZone, trafficOnly = false, fleetboardZone } = flags;
        const fleetboard =
          typeof fleetboardZone === "string"
            ? { origin: parseZone("--fleetboard-zone", fleetboardZone), ttl }
            : undefined;
        if (trafficOnly && trafficZone === undefined)
          throw new FleetError("OPTION_INVALID", "--traffic-only needs --traffic-zone");
        const origin = trafficZone === undefined ? undefined : parseZone("--traffic-zone", trafficZone);
        const zones: DnsParts["zones"] = (client, tree, deps) =>
          createClusterSetSync({ client, tree, zone, fleetboard }, deps);
        const traffic: DnsParts["traffic"] =
          origin === undefined
            ? undefined
            : (client, deps) => createTrafficSync(client, { origin, negativeTtl: ttl }, deps);
        await runDns(
          context,
          { ...flags, listen },
          {
            zones: trafficOnly ? undefined : zones,
            traffic,
            forwards: () => [],
            // A cluster that has not joined a fleet yet has no imports to wait for.
            readyWhenSynced: false,
            isBehindProxies: true,
          },
        );
      });
    });
}

function parseZone(flag: string, text: string): ReturnType<typeof foldName> {
  try {
    return foldName(parseName(text));
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `${flag} must be a domain, got ${JSON.stringify(text)}`, {
      cause,
    });
  }
}
