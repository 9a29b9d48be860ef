import { createServer, type Server } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "@commander-js/extra-typings";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { makeFolder } from "#program/parse.ts";
import { runProgram } from "@fairlead/base/program/program.ts";
import { readGoFlags } from "./go-flags.ts";

/** etcd's own default. */
const CLIENT_URL = "http://localhost:2379";

/** The health response of this program, from which the API server reads the folder of its journal. */
export interface EtcdHealth {
  /** As etcd says it. */
  readonly health: "true";
  readonly fairleadDataDir: string;
}

/**
 * `etcd`, as envtest starts it: it holds the folder in which `kube-apiserver` keeps its journal, so that an API server that is started
 * again with the same etcd has its objects, and answers /health. It stores nothing itself.
 */
export function command(): Pick<Command, "parseAsync"> {
  return new Command("etcd")
    .description("provide the data folder of an API server, for envtest")
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText("after", "\nFlags: those of etcd; only --listen-client-urls and --data-dir have an effect.")
    .action(async (_options, self) => {
      const flags = readGoFlags(self.args);
      await runProgram("etcd", { logLevel: "warn" }, async ({ signal }) => {
        const given = flags.get("data-dir");
        const folder = given ?? mkdtempSync(join(tmpdir(), "fairlead-etcd-"));
        makeFolder(folder);
        await using _server = await serveHealth(flags.get("listen-client-urls") ?? CLIENT_URL, folder);
        await untilAborted(signal);
        if (given === undefined) rmSync(folder, { recursive: true, force: true });
      });
    });
}

async function serveHealth(urls: string, folder: string): Promise<AsyncDisposable> {
  const { hostname, port } = clientUrl(urls);
  const answer = JSON.stringify({ health: "true", fairleadDataDir: folder } satisfies EtcdHealth);
  const server = createServer((request, response) => {
    const isHealth = request.url === "/health";
    response.writeHead(isHealth ? 200 : 404, { "Content-Type": "application/json" });
    response.end(isHealth ? answer : "{}");
  });
  await listen(server, { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) });
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function clientUrl(urls: string): URL {
  const [first = ""] = urls.split(",");
  const url = URL.parse(first);
  if (url !== null && url.protocol === "http:" && url.port !== "") return url;
  throw new FleetError(
    "OPTION_INVALID",
    `--listen-client-urls must begin with a URL such as ${CLIENT_URL}, got ${JSON.stringify(first)}`,
  );
}

function listen(server: Server, at: { readonly host: string; readonly port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) =>
      reject(
        new FleetError("OPTION_INVALID", `etcd cannot listen on ${at.host}:${at.port}: ${cause.message}`, {
          cause,
        }),
      ),
    );
    server.listen(at, () => resolve());
  });
}
