import { collect } from "@fairlead/base/program/flags.ts";
import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { createForward } from "@fairlead/dns/forward.ts";
import { parseSocketAddress, type SocketAddress } from "@fairlead/dns/listen-address.ts";
import { foldName, parseName } from "@fairlead/dns/wire/name.ts";
import { createClusterSync } from "@fairlead/lab/dns/sync.ts";
import { runDns } from "#dns/compose.ts";
import { followCorefile } from "./corefile.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The TTL of CoreDNS's Kubernetes plugin. Unit: seconds. */
const TTL = 5;

/** The DNS server of one lab cluster, which replaces CoreDNS. */
export function command(): Program {
  return new Command("lab-dns")
    .description("answer the names of one lab cluster, and forward those of the fleet")
    .option("--kubeconfig <file>", "kubeconfig of the cluster; default: the cluster of this pod")
    .requiredOption("--listen <address:port>", "address to serve UDP and TCP on (repeatable)", collect)
    .option("--cluster-domain <domain>", "the zone of the cluster", "cluster.local")
    .option("--forward <domain=address:port>", "DNS server of another domain (repeatable)", collect, [])
    .option(
      "--corefile <file>",
      "read the servers of other domains from a CoreDNS configuration, instead of --forward",
    )
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("lab-dns", flags, async (context) => {
        const zone = { origin: foldName(parseName(flags.clusterDomain)), ttl: TTL };
        const { corefile } = flags;
        const routes = parseForwards(flags.forward);
        await runDns(context, flags, {
          zones: (client, tree, deps) => createClusterSync({ client, tree, zone }, deps),
          forwards: (deps, stack) => {
            const fixed = [...routes].map(([domain, servers]) => createForward({ domain, servers }, deps));
            if (corefile === undefined) return fixed;
            const followed = stack.use(followCorefile(corefile, deps));
            return () => followed.forwards();
          },
          readyWhenSynced: true,
          isBehindProxies: false,
        });
      }),
    );
}

/** Several flags for one domain name several servers for it. */
function parseForwards(texts: readonly string[]): ReadonlyMap<string, readonly SocketAddress[]> {
  const routes = new Map<string, SocketAddress[]>();
  for (const text of texts) {
    const equals = text.indexOf("=");
    if (equals < 1) {
      throw new FleetError(
        "OPTION_INVALID",
        `--forward must be domain=address:port, got ${JSON.stringify(text)}`,
      );
    }
    const domain = foldName(parseName(text.slice(0, equals)));
    routes.set(domain, [...(routes.get(domain) ?? []), parseSocketAddress(text.slice(equals + 1))]);
  }
  return routes;
}
