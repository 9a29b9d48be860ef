import { hostname } from "node:os";
import { Command, Option } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";
import { collect, parseWhole } from "@fairlead/base/program/flags.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { MAX_RELAY_BASE_PORT } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MAX_INDEX } from "@fairlead/fleet/relay/registration-table.ts";
import { FLAGS } from "#shared/flags.ts";
import { runRelay } from "./run.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** Megabits per second in bytes per second. */
const MBIT = 125_000;

/** Forwards opaque datagrams. Any number of relays may run, each with a name and addresses of its own. */
export function command(): Program {
  return new Command("relay")
    .description("forward the encrypted tunnels of gateways that cannot reach each other")
    .option(FLAGS.kubeconfig, "kubeconfig of the hub; default: the cluster of this pod")
    .option("--gateways <file>", "JSON file of the gateways and their keys, in place of a hub")
    .option("--name <name>", "name of the Relay object on the hub; default: the name of this machine")
    .option(
      "--address <address>",
      "public IP address of the relay, for the Relay object (repeatable)",
      collect,
    )
    .option(
      "--listen <address>",
      "IP address to listen on (repeatable); default: all of both families",
      collect,
    )
    .option("--base-port <port>", `UDP port of gateway 0; the next ${MAX_INDEX} are of the others`, "21000")
    .option("--tls-port <port>", "TCP port for gateways whose UDP is dropped, such as 443; default: none")
    .option("--key <file>", "file of the X25519 private key; made if absent", "/var/lib/fairlead/relay.key")
    .addOption(
      new Option("--forward <mode>", "what forwards datagrams")
        .choices(["auto", "kernel", "userspace"] as const)
        .default("auto" as const),
    )
    .option("--pair-limit <mbit>", "most that one gateway may send to another, in Mbit/s, 1 to 100000")
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action(({ name = hostname(), address = [], listen = ["0.0.0.0", "::"], pairLimit, tlsPort, ...flags }) =>
      runProgram("relay", flags, (context) => {
        checkAddresses("--address", address);
        checkAddresses("--listen", listen);
        if (flags.gateways === undefined && address.length === 0)
          throw new FleetError(
            "OPTION_INVALID",
            "--address is missing: gateways are to reach the relay at it",
          );
        const basePort = parseWhole("--base-port", flags.basePort, { min: 1, max: MAX_RELAY_BASE_PORT });
        const limit =
          pairLimit === undefined
            ? undefined
            : parseWhole("--pair-limit", pairLimit, { min: 1, max: 100_000 }) * MBIT;
        const tls =
          tlsPort === undefined ? undefined : parseWhole("--tls-port", tlsPort, { min: 1, max: 65_535 });
        return runRelay(context, {
          ...flags,
          tlsPort: tls,
          name,
          address,
          listen,
          basePort,
          legLimit: limit,
        });
      }),
    );
}

function checkAddresses(flag: string, addresses: readonly string[]): void {
  for (const it of addresses)
    if (familyOfText(it) === undefined)
      throw new FleetError("OPTION_INVALID", `${flag} must be an IP address, got ${JSON.stringify(it)}`);
}
