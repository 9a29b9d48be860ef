import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "#base/clock.ts";
import type { Logger } from "#base/log.ts";
import type { Authenticator } from "../auth/authenticate.ts";
import { denial } from "../auth/denial.ts";
import type { Attributes, Authorizer } from "../auth/types.ts";
import type { Registry } from "../registry/registry.ts";
import type { UserInfo } from "../registry/types.ts";
import { internalError, methodNotAllowed, pathNotFound, StatusError } from "../status.ts";
import { admitConnection } from "./connect.ts";
import { serveDiscovery } from "./discovery.ts";
import { Exchange, splitUrl } from "./exchange.ts";
import { type HealthChecks, isHealthPath, serveHealth } from "./health.ts";
import { WriteLimit } from "./load.ts";
import { OpenApiHandler, serveOpenapiV2 } from "./openapi.ts";
import { parsePath, type ResourceTarget, type Target, verbOf } from "./path.ts";
import type { ResourceHandler } from "./resources.ts";
import { serveReview } from "./reviews.ts";
import type { KubeletTunnel } from "./tunnel.ts";

export interface HandlerOptions {
  readonly registry: Registry;
  readonly resources: ResourceHandler;
  readonly tunnel: KubeletTunnel;
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly health: HealthChecks;
  readonly version: { readonly gitVersion: string };
  readonly clock: Clock;
  readonly log: Logger;
}

/** What a request goes through: who asks, whether they may, and who serves it. */
export class RequestHandler {
  readonly #options: HandlerOptions;
  readonly #openapi: OpenApiHandler;
  readonly #limit = new WriteLimit();

  constructor(options: HandlerOptions) {
    this.#options = options;
    this.#openapi = new OpenApiHandler(options.registry.catalog);
  }

  /** Never rejects: every failure is an answer. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    setCommonHeaders(request, response);
    let exchange = new Exchange(request, response, NOBODY);
    try {
      const user = await this.#authenticate(request);
      exchange = new Exchange(request, response, user);
      using _held = this.#limit.enter(exchange.method);
      await this.#serve(exchange);
    } catch (error) {
      this.#logUnexpected(exchange, error);
      await exchange.sendError(error);
      // What of the body was not read would be taken for the next request.
      if (!request.complete) request.resume();
    }
  }

  #authenticate(request: IncomingMessage): UserInfo | Promise<UserInfo> {
    const { authenticator, registry, clock } = this.#options;
    return authenticator.authenticate(request, { reader: registry.reader, nowMs: clock.now() });
  }

  #logUnexpected(exchange: Exchange, error: unknown): void {
    if (error instanceof StatusError && error.code !== 500) return;
    const text = Error.isError(error) ? (error.stack ?? error.message) : String(error);
    this.#options.log.error("a request failed", {
      method: exchange.method,
      path: exchange.pathname,
      error: text,
    });
  }

  async #serve(exchange: Exchange): Promise<void> {
    const target = parsePath(exchange.pathname);
    if (target.kind === "resource") {
      await this.#serveResource(exchange, target);
      return;
    }
    this.#authorize(exchange.user, { verb: exchange.method.toLowerCase(), target, query: exchange.query });
    await this.#servePath(exchange);
  }

  async #serveResource(exchange: Exchange, target: ResourceTarget): Promise<void> {
    const verb = verbOf(exchange.method, target, exchange.query);
    if (verb === undefined) throw methodNotAllowed();
    this.#authorize(exchange.user, { verb, target, query: exchange.query });
    const { registry, resources, clock } = this.#options;
    if (await serveReview({ registry, clock }, exchange, target)) return;
    await resources.serve(exchange, target, verb);
  }

  #authorize(
    user: UserInfo,
    { verb, target, query }: { verb: string; target: Target; query: URLSearchParams },
  ): void {
    const attributes: Attributes =
      target.kind === "path"
        ? { user, verb, path: target.path }
        : { user, verb, resource: accessTo(target, verb, query) };
    const decision = this.#options.authorizer.authorize(attributes);
    if (!decision.allowed) throw denial(attributes, decision);
  }

  async #servePath(exchange: Exchange): Promise<void> {
    const { method, pathname } = exchange;
    if (method !== "GET" && method !== "HEAD") throw methodNotAllowed();
    const { health, version, registry, clock } = this.#options;
    if (isHealthPath(pathname)) return serveHealth(health, exchange);
    if (pathname === "/version" || pathname === "/version/") {
      return exchange.sendJson(200, JSON.stringify(version));
    }
    if (pathname === "/openapi/v3" || pathname.startsWith("/openapi/v3/")) {
      return this.#openapi.serve(exchange, clock.now());
    }
    if (pathname === "/openapi/v2") return serveOpenapiV2(exchange, version.gitVersion);
    if (await serveDiscovery(registry.catalog, exchange)) return;
    if (pathname !== "/") throw pathNotFound();
    await exchange.sendJson(200, JSON.stringify({ paths: this.#rootPaths() }));
  }

  #rootPaths(): string[] {
    const groups = this.#options.registry.catalog.groups().filter((it) => it.group !== "");
    const ofGroups = groups.flatMap(({ group, versions }) => [
      `/apis/${group}`,
      ...versions.map((it) => `/apis/${group}/${it.version}`),
    ]);
    return [
      "/api",
      "/api/v1",
      "/apis",
      ...ofGroups,
      "/healthz",
      "/livez",
      "/openapi/v2",
      "/openapi/v3",
      "/readyz",
      "/version",
    ];
  }

  /** exec, attach and port-forward. Never rejects. */
  async handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy());
    try {
      const user = await this.#authenticate(request);
      const { pathname, query } = splitUrl(request.url ?? "/");
      const target = parsePath(pathname);
      if (target.kind !== "resource") throw pathNotFound();
      const verb = verbOf(request.method ?? "GET", target, query);
      if (verb === undefined) throw methodNotAllowed();
      this.#authorize(user, { verb, target, query });
      await this.#tunnel({ request, socket, head }, target, { user, query });
    } catch (error) {
      refuseUpgrade(socket, error);
    }
  }

  async #tunnel(
    client: { request: IncomingMessage; socket: Duplex; head: Buffer },
    target: ResourceTarget,
    { user, query }: { readonly user: UserInfo; readonly query: URLSearchParams },
  ): Promise<void> {
    const { group, version, plural, namespace, name, subresource } = target;
    const definition = this.#options.registry.catalog.resource(group, version, plural);
    if (definition === undefined || group !== "" || plural !== "pods" || !isStream(subresource))
      throw pathNotFound();
    const of = { definition, namespace, name, subresource };
    await admitConnection(this.#options.registry, of, { user, query });
    await this.#options.tunnel.serveUpgrade(client, subresource, of, query);
  }
}

const NOBODY: UserInfo = { name: "", groups: [] };

export function isStream(subresource: string): subresource is "exec" | "attach" | "portforward" {
  return subresource === "exec" || subresource === "attach" || subresource === "portforward";
}

function setCommonHeaders(request: IncomingMessage, response: ServerResponse): void {
  const audit = request.headers["audit-id"];
  response.setHeader(
    "Audit-Id",
    typeof audit === "string" && /^[\w-]{1,64}$/.test(audit) ? audit : randomUUID(),
  );
  response.setHeader("Cache-Control", "no-cache, private");
}

/** A collection narrowed to one name counts as a request for that name. */
function accessTo(
  target: ResourceTarget,
  verb: string,
  query: URLSearchParams,
): Extract<Attributes, { resource: unknown }>["resource"] {
  const { group, plural, subresource, namespace, name } = target;
  // Deleting or changing a namespace is a matter of that namespace.
  const ownNamespace = group === "" && plural === "namespaces" ? name : undefined;
  const selected =
    verb === "list" || verb === "watch" || verb === "deletecollection" ? selectedName(query) : "";
  return {
    group,
    resource: plural,
    subresource,
    namespace: namespace ?? ownNamespace,
    name: name ?? selected,
  };
}

function selectedName(query: URLSearchParams): string {
  const terms = (query.get("fieldSelector") ?? "").split(",");
  const match = terms.map((it) => /^\s*metadata\.name==?([^=].*)$/.exec(it)).find((it) => it !== null);
  return match?.[1]?.trim() ?? "";
}

function refuseUpgrade(socket: Duplex, error: unknown): void {
  if (socket.destroyed) return;
  const refusal =
    error instanceof StatusError
      ? error
      : internalError(Error.isError(error) ? error.message : String(error));
  const body = JSON.stringify(refusal.status);
  const head = [
    `HTTP/1.1 ${refusal.code} ${STATUS_CODES[refusal.code] ?? "Error"}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
