import { hostname } from "node:os";
import { Command } from "@commander-js/extra-typings";
import type { IncomingMessage, ServerResponse } from "node:http";
import { systemClock } from "@fairlead/base/clock.ts";
import { parseWhole, PORTS } from "@fairlead/base/program/flags.ts";
import { plainAddress } from "@fairlead/lab/images/echo/answer.ts";
import { dial } from "@fairlead/lab/images/agnhost/dial.ts";
import { answerHttp, answerUdp, type NetexecFacts } from "@fairlead/lab/images/agnhost/netexec.ts";
import { porterPorts } from "@fairlead/lab/images/agnhost/porter.ts";
import { serveHttp, serveTcp, serveUdp } from "@fairlead/lab/images/agnhost/serve.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The servers of the image agnhost of Kubernetes' tests, with the flags that suites use. */
export function command(): Program {
  const program = new Command("lab-agnhost").description("serve as the image agnhost of Kubernetes does");
  program
    .command("serve-hostname")
    .description("answer with the host name")
    .option("--tcp [bool]", "to each connection")
    .option("--udp [bool]", "to each packet")
    .option("--http [bool]", "to each HTTP request", "true")
    .option("--close [bool]", "close the connection after an HTTP request")
    .option("--port <number>", "port of all of them", "9376")
    .action(async (flags) => {
      const port = parseWhole("--port", flags.port, PORTS);
      const name = hostname();
      if (isOn(flags.tcp)) await serveTcp(port, name);
      if (isOn(flags.udp)) await serveUdp(port, () => name);
      if (isOn(flags.http))
        await serveHttp(port, (_, response) => {
          if (isOn(flags.close)) response.setHeader("connection", "close");
          response.end(name);
        });
      endOnSignals();
      process.stdout.write(`Serving on port ${port}.\n`);
    });
  program
    .command("porter")
    .description("serve the ports that variables of the environment name")
    .option("--json-response", "answer HTTP requests with JSON")
    .action(async (flags) => {
      for (const { protocol, port, text } of porterPorts(process.env)) {
        if (protocol === "udp") await serveUdp(port, () => text);
        else
          await serveHttp(port, ({ method }, response) =>
            response.end(flags.jsonResponse === true ? JSON.stringify({ Method: method, Body: text }) : text),
          );
      }
      endOnSignals();
      process.stdout.write("serving\n");
      // Nothing else keeps a program alive that serves no port.
      setInterval(() => {}, 1 << 30);
    });
  program
    .command("netexec")
    .description("answer HTTP requests and packets as they ask for it")
    .option("--http-port <number>", "port of the HTTP server", "8080")
    .option("--udp-port <number>", "port of the UDP server, -1: none", "8081")
    .option("--udp-listen-addresses <list>", "addresses of the UDP server, separated by commas", "::")
    .option("--sctp-port <number>", "has no effect: netexec of a lab has no SCTP", "-1")
    .option("--delay-shutdown <seconds>", "time to keep serving after SIGTERM", "0")
    .action(async (flags) => {
      const httpPort = parseWhole("--http-port", flags.httpPort, PORTS);
      const udpPort = flags.udpPort === "-1" ? -1 : parseWhole("--udp-port", flags.udpPort, PORTS);
      let isEnding = false;
      const facts: NetexecFacts = {
        hostname: hostname(),
        httpPort,
        udpPort,
        now: () => new Date(systemClock.now()),
        isEnding: () => isEnding,
      };
      const addresses = udpPort < 0 ? [] : flags.udpListenAddresses.split(",");
      for (const address of new Set(addresses))
        await serveUdp(udpPort, (text, from) => answerUdp(text, from, facts), address);
      await serveHttp(httpPort, (request, response) => {
        // A client that went away has no use for an answer.
        respond(request, response, facts).catch(() => response.destroy());
      });
      endOnSignals(() => (isEnding = true), 1000 * parseWhole("--delay-shutdown", flags.delayShutdown));
      process.stdout.write(`Started HTTP server on port ${httpPort}\n`);
    });
  return program;
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  facts: NetexecFacts,
): Promise<void> {
  request.resume();
  const { remoteAddress, remotePort = 0 } = request.socket;
  const from = { address: plainAddress(remoteAddress), port: remotePort };
  const url = new URL(request.url ?? "/", "http://agnhost");
  const { status, text, location, deed } = answerHttp(url, { headers: request.headers, from }, facts);
  response.statusCode = status;
  if (location !== undefined) response.setHeader("location", location);
  response.end(deed?.type === "dial" ? await dial(deed.dial) : text, () => {
    if (deed?.type === "exit") process.exit(deed.code);
  });
}

/** A flag as Go reads it: alone, or with a value after "=". */
function isOn(value: string | true | undefined): boolean {
  return value === true || value === "true";
}

/** The program is process 1 of its container, which no signal ends by default. */
function endOnSignals(onSignal: () => void = () => {}, delayMs = 0): void {
  for (const signal of ["SIGTERM", "SIGINT"])
    process.once(signal, () => {
      onSignal();
      systemClock.after(delayMs, () => process.exit(0));
    });
}
