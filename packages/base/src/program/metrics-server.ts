import { createServer, type ServerResponse } from "node:http";
import { HTTP_LIMITS, limitConnections } from "#connection-limit.ts";
import { FleetError } from "#errors.ts";
import { type HostPort, splitHostPort } from "#netaddr/host-port.ts";
import type { HealthCheck } from "#health.ts";
import type { MetricsRegistry } from "#metrics.ts";

export interface MetricsServerOptions {
  readonly metrics: MetricsRegistry;
  /** `host:port`, `[host]:port`, or `:port` for every address. */
  readonly address: string;
  /** What `/healthz` and `/readyz` report. */
  readonly checks: Iterable<HealthCheck>;
  /** The flag that the address came from, for messages. Default: `--metrics`. */
  readonly flag?: string;
}

export interface MetricsServer extends AsyncDisposable {
  /** The port it listens on, also if port 0 was requested. */
  readonly port: number;
}

/**
 * Serves `/metrics`, `/healthz` and `/readyz` over plain HTTP, as Prometheus and the kubelet ask for them. As with the
 * API server's own, `?verbose` lists every check, and `/readyz/NAME` asks for one.
 *
 * @throws {FleetError} `OPTION_INVALID` when the address cannot be bound.
 */
export async function serveMetrics(options: MetricsServerOptions): Promise<MetricsServer> {
  const { flag = "--metrics", address } = options;
  const { host, port } = parseAddress(flag, address);
  const server = createServer(HTTP_LIMITS, (request, response) => {
    onWhole(request, response);
    serve(options, new URL(request.url ?? "", "http://here"), response).catch((error: unknown) => {
      response.destroy(Error.isError(error) ? error : undefined);
    });
  });
  const onWhole = limitConnections(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new FleetError("OPTION_INVALID", `cannot listen on ${address} (${flag})`, { cause }));
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

function parseAddress(flag: string, address: string): HostPort {
  const found = splitHostPort(address);
  if (found !== undefined) return found;
  throw new FleetError("OPTION_INVALID", `${flag} must be host:port, got ${JSON.stringify(address)}`);
}

async function serve(
  { metrics, checks }: MetricsServerOptions,
  url: URL,
  response: ServerResponse,
): Promise<void> {
  if (url.pathname === "/metrics") {
    const text = await metrics.render();
    response.writeHead(200, { "content-type": metrics.contentType }).end(text);
    return;
  }
  const [, endpoint = "", name] = /^\/(healthz|livez|readyz)(?:\/(.+))?$/.exec(url.pathname) ?? [];
  const kind = endpoint === "readyz" ? "ready" : "live";
  const asked = [...checks].filter((it) => name === undefined || it.name === name);
  if (endpoint === "" || (name !== undefined && asked.length === 0)) {
    response.writeHead(404).end();
    return;
  }
  // One that is asked for by name counts, whatever kind it is.
  const counts = (it: HealthCheck): boolean => name !== undefined || it.kind === kind || it.kind === "live";
  const isWell = asked.every((it) => !counts(it) || it.problem() === undefined);
  const isVerbose = !isWell || url.searchParams.has("verbose");
  const text = isVerbose
    ? `${list(asked, counts)}${endpoint} check ${isWell ? "passed" : "failed"}\n`
    : "ok\n";
  response.writeHead(isWell ? 200 : 503, { "content-type": "text/plain; charset=utf-8" }).end(text);
}

/** As the API server writes it; what does not count for the answer is a note. */
function list(checks: readonly HealthCheck[], counts: (check: HealthCheck) => boolean): string {
  return checks
    .map((check) => {
      const problem = check.problem();
      if (problem === undefined) return `[+]${check.name} ok\n`;
      return counts(check) ? `[-]${check.name} failed: ${problem}\n` : `[*]${check.name}: ${problem}\n`;
    })
    .join("");
}
