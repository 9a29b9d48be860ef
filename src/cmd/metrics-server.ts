import { createServer, type ServerResponse } from "node:http";
import { FleetError } from "#base/errors.ts";
import type { MetricsRegistry } from "#base/metrics.ts";

export interface MetricsServerOptions {
  readonly metrics: MetricsRegistry;
  /** `host:port`, `[host]:port`, or `:port` for every address. */
  readonly address: string;
  /** What `/readyz` says. */
  readonly isReady: () => boolean;
}

export interface MetricsServer extends AsyncDisposable {
  /** The port it listens on: the one that was chosen when 0 was asked for. */
  readonly port: number;
}

/**
 * Serves `/metrics`, `/healthz` and `/readyz` over plain HTTP, as Prometheus and the kubelet ask for them.
 *
 * @throws {FleetError} `OPTION_INVALID` when the address cannot be bound.
 */
export async function serveMetrics(options: MetricsServerOptions): Promise<MetricsServer> {
  const { host, port } = parseAddress(options.address);
  const server = createServer((request, response) => {
    answer(options, request.url ?? "", response).catch((error: unknown) => {
      response.destroy(Error.isError(error) ? error : undefined);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new FleetError("OPTION_INVALID", `cannot listen on ${options.address} for metrics`, { cause }));
    });
    server.listen({ port, ...(host === "" ? {} : { host }) }, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

function parseAddress(address: string): { readonly host: string; readonly port: number } {
  const groups = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:]*)):(?<port>\d{1,5})$/.exec(address)?.groups ?? {};
  const port = Number(groups["port"]);
  if (port <= 65_535) return { host: groups["v6"] ?? groups["host"] ?? "", port };
  throw new FleetError("OPTION_INVALID", `--metrics must be host:port, got ${JSON.stringify(address)}`);
}

async function answer(
  { metrics, isReady }: MetricsServerOptions,
  url: string,
  response: ServerResponse,
): Promise<void> {
  switch (url.split("?")[0]) {
    case "/metrics": {
      const text = await metrics.render();
      response.writeHead(200, { "content-type": metrics.contentType }).end(text);
      return;
    }
    case "/healthz":
      response.end("ok\n");
      return;
    case "/readyz":
      response.writeHead(isReady() ? 200 : 503).end(isReady() ? "ok\n" : "not ready\n");
      return;
    default:
      response.writeHead(404).end();
  }
}
