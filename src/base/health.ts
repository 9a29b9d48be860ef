import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { MetricsRegistry } from "./metrics.ts";

export interface HealthOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly metrics: MetricsRegistry;
  /** Named conditions for readiness; all must hold. */
  readonly ready: Readonly<Record<string, () => boolean>>;
}

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

/**
 * Serves what a kubelet and a Prometheus ask for: `/healthz` (the process answers), `/readyz` (it does its work; a
 * refusal names what is missing, as the API server's own does) and `/metrics`.
 */
export async function serveHealth(options: HealthOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const path = (request.url ?? "/").split("?")[0];
    if (request.method !== "GET" && request.method !== "HEAD") answer(response, 405, "method not allowed\n");
    else if (path === "/healthz" || path === "/livez") answer(response, 200, "ok\n");
    else if (path === "/readyz") answerReady(response, options.ready);
    else if (path === "/metrics") answerMetrics(response, options.metrics);
    else answer(response, 404, "not found\n");
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

function answer(
  response: ServerResponse,
  code: number,
  text: string,
  type = "text/plain; charset=utf-8",
): void {
  response.writeHead(code, { "content-type": type });
  response.end(text);
}

function answerReady(response: ServerResponse, conditions: HealthOptions["ready"]): void {
  const lines = Object.entries(conditions).map(([name, holds]) => ({ name, isOk: holds() }));
  const isReady = lines.every((line) => line.isOk);
  const text = lines
    .map(({ name, isOk }) => `[${isOk ? "+" : "-"}]${name} ${isOk ? "ok" : "failed"}\n`)
    .join("");
  answer(response, isReady ? 200 : 503, `${text}readyz check ${isReady ? "passed" : "failed"}\n`);
}

function answerMetrics(response: ServerResponse, metrics: MetricsRegistry): void {
  metrics.render().then(
    (text) => answer(response, 200, text, metrics.contentType),
    () => answer(response, 500, "the metrics cannot be read\n"),
  );
}
