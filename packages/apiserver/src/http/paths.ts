import type { MetricsRegistry } from "@fairlead/base/metrics.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import {
  CONFIGURATION_PATH,
  issuerConfiguration,
  issuerKeys,
  KEYS_PATH,
  KEYS_TYPE,
} from "#auth/discovery.ts";
import type { ServiceAccountTokens } from "#auth/tokens.ts";
import type { Registry } from "#registry/registry.ts";
import { methodNotAllowed, pathNotFound } from "#status.ts";
import { serveDiscovery } from "./discovery.ts";
import type { Exchange } from "./exchange.ts";
import { type HealthChecks, isHealthPath, serveHealth } from "./health.ts";
import { negotiateFormat } from "./negotiate.ts";
import { OpenApiHandler, serveOpenapiV2 } from "./openapi.ts";

export interface PathServices {
  readonly registry: Registry;
  readonly serviceAccountTokens: ServiceAccountTokens;
  /** Where others find the keys of ServiceAccount tokens. Default: here, at the address that they came to. */
  readonly serviceAccountKeysUrl?: string | undefined;
  readonly health: HealthChecks;
  readonly version: { readonly gitVersion: string };
  readonly metrics: MetricsRegistry;
  readonly clock: Clock;
}

/** Serves paths that are not resources, such as health, discovery and OpenAPI. The caller has authorized the request. */
export class PathHandler {
  readonly #services: PathServices;
  readonly #openapi: OpenApiHandler;
  /** Handlers of fixed, read-only paths. */
  readonly #pages: ReadonlyMap<string, (exchange: Exchange) => Promise<void>>;

  constructor(services: PathServices) {
    this.#services = services;
    this.#openapi = new OpenApiHandler(services.registry.catalog);
    const version = (exchange: Exchange): Promise<void> => this.#serveVersion(exchange);
    const issuer = (exchange: Exchange): Promise<void> => this.#serveIssuer(exchange);
    this.#pages = new Map([
      ["/version", version],
      ["/version/", version],
      ["/metrics", (exchange) => this.#serveMetrics(exchange)],
      [CONFIGURATION_PATH, issuer],
      [KEYS_PATH, issuer],
      ["/openapi/v2", (exchange) => serveOpenapiV2(exchange, services.version.gitVersion)],
    ]);
  }

  async serve(exchange: Exchange): Promise<void> {
    const { method, pathname } = exchange;
    const { health, registry, clock } = this.#services;
    if (isHealthPath(pathname)) return serveHealth(health, exchange);
    if (method !== "GET" && method !== "HEAD") throw methodNotAllowed();
    const page = this.#pages.get(pathname);
    if (page !== undefined) return page(exchange);
    if (pathname === "/openapi/v3" || pathname.startsWith("/openapi/v3/")) {
      return this.#openapi.serve(exchange, clock.now());
    }
    if (await serveDiscovery(registry.catalog, exchange)) return;
    if (pathname !== "/") throw pathNotFound();
    await exchange.sendJson(200, JSON.stringify({ paths: this.#rootPaths() }));
  }

  async #serveVersion(exchange: Exchange): Promise<void> {
    negotiateFormat(exchange.request.headers.accept, ["json"]);
    await exchange.sendJson(200, JSON.stringify(this.#services.version));
  }

  async #serveMetrics(exchange: Exchange): Promise<void> {
    const { metrics } = this.#services;
    await exchange.sendText(200, await metrics.render(), metrics.contentType);
  }

  /** For those who check ServiceAccount tokens by OpenID Connect. */
  async #serveIssuer(exchange: Exchange): Promise<void> {
    const { serviceAccountTokens: tokens, serviceAccountKeysUrl } = this.#services;
    const { request, response, pathname } = exchange;
    const keysUrl = serviceAccountKeysUrl ?? `https://${request.headers.host ?? "localhost"}${KEYS_PATH}`;
    const configuration = issuerConfiguration(tokens, keysUrl);
    if (configuration === undefined) throw pathNotFound();
    response.setHeader("Cache-Control", "public, max-age=3600");
    if (pathname === CONFIGURATION_PATH) return exchange.sendJson(200, JSON.stringify(configuration));
    await exchange.sendBytes(200, Buffer.from(JSON.stringify(issuerKeys(tokens))), KEYS_TYPE);
  }

  #rootPaths(): string[] {
    const groups = this.#services.registry.catalog.groups().filter((it) => it.group !== "");
    const ofGroups = groups.flatMap(({ group, versions }) => [
      `/apis/${group}`,
      ...versions.map((it) => `/apis/${group}/${it.version}`),
    ]);
    return [
      CONFIGURATION_PATH,
      "/api",
      "/api/v1",
      "/apis",
      ...ofGroups,
      "/healthz",
      "/livez",
      "/metrics",
      "/openapi/v2",
      "/openapi/v3",
      KEYS_PATH,
      "/readyz",
      "/version",
    ];
  }
}
