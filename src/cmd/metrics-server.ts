import { createServer } from "node:http";
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
export async function serveMetrics({
  metrics,
  address,
  isReady,
}: MetricsServerOptions): Promise<MetricsServer> {
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:]*)):(?<port>\d{1,5})$/.exec(address);
  const port = Number(match?.groups?.["port"] ?? Number.NaN);
  if (!(port <= 65_535)) {
    throw new FleetError("OPTION_INVALID", `--metrics must be host:port, got ${JSON.stringify(address)}`);
  }
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const path = request.url?.split("?")[0];
      if (path === "/metrics") {
        const text = await metrics.render();
        response.writeHead(200, { "content-type": metrics.contentType }).end(text);
      } else if (path === "/healthz") response.end("ok\n");
      else if (path === "/readyz")
        response.writeHead(isReady() ? 200 : 503).end(isReady() ? "ok\n" : "not ready\n");
      else response.writeHead(404).end();
    };
    answer().catch((error: unknown) => {
      response.destroy(Error.isError(error) ? error : undefined);
    });
  });
  const host = match?.groups?.["v6"] ?? match?.groups?.["host"] ?? "";
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new FleetError("OPTION_INVALID", `cannot listen on ${address} for metrics`, { cause }));
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
