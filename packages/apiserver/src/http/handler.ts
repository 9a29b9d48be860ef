import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { TurnQueue } from "@fairlead/base/turn.ts";
import { AuditLog, type AuditOptions } from "#audit/log.ts";
import type { Authenticator } from "#auth/authenticate.ts";
import type { Authorizer } from "#values/authorizer.ts";
import type { Catalog } from "#registry/catalog.ts";
import type { Registry } from "#registry/registry.ts";
import { PIECE_MS } from "#registry/size.ts";
import type { UserInfo } from "#values/object.ts";
import {
  internalError,
  isPathNotFound,
  notFound,
  pathNotFound,
  StatusError,
  tooManyRequests,
} from "#status.ts";
import { admitConnection } from "./connect.ts";
import { Exchange } from "./exchange.ts";
import { Gate, Passage } from "./gate.ts";
import { isHealthPath } from "./health.ts";
import { isOpenEnded, LoadControl, type LoadLimits } from "./load.ts";
import type { ServerMeters } from "./meters.ts";
import { limitAnswer, onceClosed } from "./outlet.ts";
import type { ResourceTarget } from "./path.ts";
import { PathHandler, type PathServices } from "./paths.ts";
import type { ResourceHandler } from "./resources.ts";
import { serveReview } from "./reviews.ts";
import type { KubeletTunnel } from "./tunnel.ts";

export interface HandlerOptions extends PathServices {
  readonly registry: Registry;
  readonly resources: ResourceHandler;
  readonly tunnel: KubeletTunnel;
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly meters: ServerMeters;
  readonly limits?: LoadLimits | undefined;
  readonly audit?: AuditOptions | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The request path: authentication, authorization, and dispatch to a handler. */
export class RequestHandler {
  readonly #options: HandlerOptions;
  readonly #paths: PathHandler;
  readonly #gate: Gate;
  readonly #load: LoadControl;
  readonly #turns: TurnQueue;
  #isStopping = false;

  constructor(options: HandlerOptions) {
    this.#options = options;
    this.#paths = new PathHandler(options);
    const { audit, clock } = options;
    this.#turns = new TurnQueue(() => clock.monotonic(), PIECE_MS);
    const log = audit === undefined ? undefined : new AuditLog(audit, clock);
    this.#gate = new Gate({ ...options, audit: log });
    this.#load = new LoadControl(options.limits ?? {}, clock, options.meters);
    options.metrics.onRender(() => this.#load.report());
  }

  /** From now on everything but health is refused, so that clients go elsewhere. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Never rejects: every failure is an answer. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const passage = new Passage(request, setCommonHeaders(request, response, this.#options.clock));
    onceClosed(response, () => passage.over(response.statusCode));
    let exchange = this.#exchange(passage, response);
    try {
      this.#refuseWhenStopping(passage, response);
      await this.#gate.admit(passage);
      exchange = await this.#admitted(passage, response);
      const answer = (): Promise<void> => this.#serve(exchange, passage);
      await (isHealthPath(passage.pathname) ? answer() : this.#load.within(passage, answer));
      if (passage.verb === "watch" && !response.writableEnded) {
        passage.record?.started({ code: response.statusCode });
      }
    } catch (error) {
      await this.#refuse(error, exchange, passage);
    }
    if (response.writableEnded || !isOpenEnded(passage)) limitAnswer(exchange.outlet, request, response);
  }

  #exchange(passage: Passage, response: ServerResponse, body?: Buffer): Exchange {
    const { request, user } = passage;
    return new Exchange({
      request,
      response,
      user,
      outlet: this.#load.outlet(user),
      turns: this.#turns,
      body,
    });
  }

  /** Reads the body and holds a slot until the request is answered. Health checks need no slot. */
  async #admitted(passage: Passage, response: ServerResponse): Promise<Exchange> {
    if (isHealthPath(passage.pathname)) return this.#exchange(passage, response);
    const holding = this.#load.holdBody(passage.user);
    onceClosed(response, () => holding[Symbol.dispose]());
    const body = await this.#load.bodyOf(passage, passage.request, holding);
    const slot = this.#load.enter(passage);
    onceClosed(response, () => slot[Symbol.dispose]());
    return this.#exchange(passage, response, body);
  }

  async #refuse(error: unknown, exchange: Exchange, passage: Passage): Promise<void> {
    const { request, response } = exchange;
    passage.refused(error);
    this.#logUnexpected(exchange, error);
    // A client that sends too slowly must not hold the connection for another timeout.
    if (error instanceof StatusError && error.code === 408) response.setHeader("Connection", "close");
    if (isPathNotFound(error)) await this.#sendPathNotFound(exchange, passage);
    else await exchange.sendError(error);
    // The unread rest of the body would be parsed as the next request.
    if (!request.complete) request.resume();
  }

  #refuseWhenStopping({ pathname }: Passage, response: ServerResponse): void {
    if (!this.#isStopping || isHealthPath(pathname)) return;
    response.setHeader("Connection", "close");
    throw tooManyRequests("The apiserver is shutting down, please try again later.", 5);
  }

  #logUnexpected(exchange: Exchange, error: unknown): void {
    if (error instanceof StatusError && error.code !== 500) return;
    const text = Error.isError(error) ? (error.stack ?? error.message) : String(error);
    this.#options.log.error("request failed", {
      method: exchange.method,
      path: exchange.pathname,
      error: text,
    });
  }

  async #serve(exchange: Exchange, passage: Passage): Promise<void> {
    const { target } = passage;
    if (target.kind === "path") return this.#paths.serve(exchange);
    const { registry, resources, clock } = this.#options;
    if (await serveReview({ registry, clock }, exchange, target)) return;
    await resources.serve(exchange, target, passage);
  }

  /** 404: a Status in built-in groups and for missing subresources of custom resources, plain text elsewhere. */
  async #sendPathNotFound(exchange: Exchange, { target }: Passage): Promise<void> {
    const { catalog } = this.#options.registry;
    if (target.kind === "resource") {
      const definition = catalog.resource(target.group, target.version, target.plural);
      if (definition?.isCustom === true && target.subresource !== "")
        return exchange.sendError(notFound(definition, target.name ?? ""));
    }
    const [, root, group] = exchange.pathname.split("/");
    const isBuiltIn = root === "api" || (root === "apis" && isBuiltInGroup(catalog, group));
    if (isBuiltIn) return exchange.sendError(pathNotFound());
    exchange.response.setHeader("X-Content-Type-Options", "nosniff");
    await exchange.sendText(404, "404 page not found\n");
  }

  /** exec, attach and port-forward. Never rejects. */
  async handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy());
    const passage = new Passage(request, auditIdOf(request));
    let code = 101;
    socket.once("close", () => passage.over(code));
    try {
      if (this.#isStopping)
        throw tooManyRequests("The apiserver is shutting down, please try again later.", 5);
      await this.#gate.admit(passage);
      const { target, user, query } = passage;
      if (target.kind === "path") throw pathNotFound();
      await this.#tunnel({ request, socket, head }, target, { user, query });
      passage.record?.started({ code });
    } catch (error) {
      passage.refused(error);
      code = refuseUpgrade(socket, error);
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

function isBuiltInGroup(catalog: Catalog, name: string | undefined): boolean {
  const versions = catalog.groups().find(({ group }) => group === name)?.versions ?? [];
  return versions.some((it) => it.reviews.length > 0 || it.resources.some(({ isCustom }) => !isCustom));
}

export function isStream(subresource: string): subresource is "exec" | "attach" | "portforward" {
  return subresource === "exec" || subresource === "attach" || subresource === "portforward";
}

/** The audit id from the client's header, so that it can find the request, or a new one. */
function auditIdOf(request: IncomingMessage): string {
  const given = request.headers["audit-id"];
  return typeof given === "string" && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

/** @returns The audit id of the answer. */
function setCommonHeaders(request: IncomingMessage, response: ServerResponse, clock: Clock): string {
  // Node's own is the machine's time, kept for a second at a time.
  if (clock !== systemClock) response.setHeader("Date", new Date(clock.now()).toUTCString());
  const auditId = auditIdOf(request);
  response.setHeader("Audit-Id", auditId);
  response.setHeader("Cache-Control", "no-cache, private");
  return auditId;
}

/** @returns The code of the answer. */
function refuseUpgrade(socket: Duplex, error: unknown): number {
  const refusal =
    error instanceof StatusError
      ? error
      : internalError(Error.isError(error) ? error.message : String(error));
  if (socket.destroyed) return refusal.code;
  const body = JSON.stringify(refusal.status);
  const head = [
    `HTTP/1.1 ${refusal.code} ${STATUS_CODES[refusal.code] ?? "Error"}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  return refusal.code;
}
