import { parseWhole } from "@fairlead/base/program/flags.ts";
import { hostname, networkInterfaces } from "node:os";
import { Command } from "@commander-js/extra-typings";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { EchoServer } from "@fairlead/lab/images/echo/server.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The echo server: what the image `fairlead.dev/echo` runs. Flags first, then environment, then defaults. */
export function command(): Program {
  return new Command("lab-echo")
    .description("answer every request with the identity of this pod and the address of the client")
    .option("--port <number>", "port of the HTTP server (ECHO_PORT)", setting("ECHO_PORT", "8080"))
    .option(
      "--tcp-port <number>",
      "port that echoes bytes, 0: disabled (ECHO_TCP_PORT)",
      setting("ECHO_TCP_PORT", "0"),
    )
    .option(
      "--udp-port <number>",
      "port that answers packets with the identity of this pod, 0: disabled (ECHO_UDP_PORT)",
      setting("ECHO_UDP_PORT", "0"),
    )
    .option(
      "--ready-delay <ms>",
      "time until it is ready (ECHO_READY_DELAY_MS)",
      setting("ECHO_READY_DELAY_MS", "0"),
    )
    .option(
      "--drain <ms>",
      "time to keep serving after SIGTERM (ECHO_DRAIN_MS)",
      setting("ECHO_DRAIN_MS", "2000"),
    )
    .action(async (flags) => {
      const server = new EchoServer({
        identity: identity(),
        port: parseWhole("--port", flags.port),
        tcpPort: parseWhole("--tcp-port", flags.tcpPort),
        udpPort: parseWhole("--udp-port", flags.udpPort),
        readyDelayMs: parseWhole("--ready-delay", flags.readyDelay),
        clock: systemClock,
      });
      await server.start();
      process.stdout.write(`serving on port ${server.port}\n`);
      await serveUntilStopped(parseWhole("--drain", flags.drain));
      await server[Symbol.asyncDispose]();
    });
}

/**
 * A setting from the environment. In a namespace with a Service named echo, the kubelet sets ECHO_PORT, too: to the URL of that
 * Service, such as tcp://10.96.0.7:80.
 */
function setting(name: string, otherwise: string): string {
  const value = process.env[name];
  return value === undefined || value.includes("://") ? otherwise : value;
}

/** The identity of the pod, from its environment, with defaults from the machine. */
function identity() {
  const { env } = process;
  const addresses = Object.values(networkInterfaces())
    .flatMap((it) => it ?? [])
    .filter((it) => !it.internal && !it.address.startsWith("fe80:"))
    .map((it) => it.address);
  return {
    cluster: env["CLUSTER_NAME"] ?? "",
    node: env["NODE_NAME"] ?? "",
    namespace: env["POD_NAMESPACE"] ?? "",
    pod: env["POD_NAME"] ?? hostname(),
    addresses,
  };
}

/**
 * Resolves `drainMs` after SIGTERM or SIGINT, and at once on a second one. Until then everything is served as before,
 * because connections keep arriving until the fleet has noticed that this pod terminates.
 */
async function serveUntilStopped(drainMs: number): Promise<void> {
  const now = new AbortController();
  await new Promise<void>((resolve) => {
    const keepAlive = setInterval(() => {}, 1 << 30);
    let reported = false;
    const onSignal = (): void => {
      if (reported) now.abort();
      reported = true;
      clearInterval(keepAlive);
      resolve();
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
  process.stdout.write(`ending; serving on for ${drainMs} ms\n`);
  await delay(systemClock, drainMs, now.signal).catch(() => {});
}
