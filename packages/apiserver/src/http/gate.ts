import type { IncomingMessage } from "node:http";
import type { Clock } from "@fairlead/base/clock.ts";
import type { AuditLog, AuditRecord } from "#audit/log.ts";
import type { Authenticator } from "#auth/authenticate.ts";
import { denial } from "#auth/denial.ts";
import { impersonate } from "#auth/impersonate.ts";
import type { Attributes, Authorizer, ResourceAttributes } from "#values/authorizer.ts";
import { authorizedName, type FieldSelector, parseFieldSelector } from "#registry/field-selector.ts";
import type { Registry } from "#registry/registry.ts";
import type { UserInfo } from "#values/object.ts";
import { internalError, methodNotAllowed, StatusError } from "#status.ts";
import { splitUrl } from "./exchange.ts";
import { parsePath, type ResourceTarget, type Target, verbOf } from "./path.ts";

const ANONYMOUS: UserInfo = { name: "", groups: [] };

export interface GateOptions {
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly audit: AuditLog | undefined;
}

/** A request with what is known of it so far. */
export class Passage {
  readonly request: IncomingMessage;
  readonly auditId: string;
  readonly pathname: string;
  readonly query: URLSearchParams;
  readonly target: Target;
  /** "" when the method has no meaning for the target. */
  readonly verb: string;
  /** The user that the request acts as. */
  user = ANONYMOUS;
  record: AuditRecord | undefined;
  #fields: FieldSelector | undefined;
  #error: StatusError | undefined;
  #isUnexpected = false;

  constructor(request: IncomingMessage, auditId: string) {
    this.request = request;
    this.auditId = auditId;
    const { pathname, query } = splitUrl(request.url ?? "/");
    this.pathname = pathname;
    this.query = query;
    this.target = parsePath(pathname);
    const method = request.method ?? "GET";
    this.verb =
      this.target.kind === "path" ? method.toLowerCase() : (verbOf(method, this.target, query) ?? "");
  }

  get subresource(): string {
    return this.target.kind === "path" ? "" : this.target.subresource;
  }

  attributes(user: UserInfo): Attributes {
    const { target, verb } = this;
    if (target.kind === "path") return { user, verb, path: target.path };
    return { user, verb, resource: accessTo(target, this.#selectedName) };
  }

  /**
   * What the query selects by fields.
   *
   * @throws {StatusError} 400 when it cannot be read.
   */
  get fields(): FieldSelector {
    this.#fields ??= parseFieldSelector(this.query.get("fieldSelector") ?? "");
    return this.#fields;
  }

  /** By which a collection is authorized: not its deletion, as upstream. */
  get #selectedName(): string {
    if (this.verb !== "list" && this.verb !== "watch") return "";
    try {
      return authorizedName(this.fields);
    } catch {
      // The handler of the list rejects the malformed selector.
      return "";
    }
  }

  refused(error: unknown): void {
    this.#isUnexpected = !(error instanceof StatusError);
    this.#error = error instanceof StatusError ? error : internalError("the request failed");
  }

  /** The client has its answer, or has gone. */
  over(code: number): void {
    const stage = this.#isUnexpected ? "Panic" : "ResponseComplete";
    this.record?.finished({ ...this.#error?.status, code }, stage);
  }
}

/** Authenticates, impersonates and authorizes a request. Each step is recorded in the audit log. */
export class Gate {
  readonly #options: GateOptions;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** @throws {StatusError} 401, 403, 405: the request goes no further. */
  async admit(passage: Passage): Promise<void> {
    const { authenticator, authorizer, registry, clock } = this.#options;
    const { request } = passage;
    try {
      const context = { reader: registry.reader, nowMs: clock.now() };
      const found = authenticator.authenticate(request, context);
      // Most are known at once, and need not wait a turn.
      passage.user = found instanceof Promise ? await found : found;
    } catch (error) {
      if (error instanceof StatusError) this.#recordStranger(passage, error);
      throw error;
    }
    passage.record = this.#open(passage, passage.user);
    passage.record?.received();
    const acting = impersonate(passage.user, request.headersDistinct, authorizer);
    if (acting !== passage.user) passage.record?.impersonates(acting);
    passage.user = acting;
    if (passage.verb === "") throw methodNotAllowed();
    const attributes = passage.attributes(acting);
    const decision = authorizer.authorize(attributes);
    passage.record?.decided(decision);
    if (!decision.allowed) throw denial(attributes, decision);
  }

  #recordStranger(passage: Passage, error: StatusError): void {
    this.#open(passage, ANONYMOUS)?.started(error.status);
  }

  #open(passage: Passage, user: UserInfo): AuditRecord | undefined {
    const { audit } = this.#options;
    if (audit === undefined) return undefined;
    const { request, auditId, target } = passage;
    return audit.open({
      id: auditId,
      uri: request.url ?? "/",
      // An IPv4 client of a socket for both families.
      sourceIp: (request.socket.remoteAddress ?? "").replace(/^::ffff:/, ""),
      userAgent: request.headers["user-agent"] ?? "",
      version: target.kind === "path" ? "" : target.version,
      attributes: passage.attributes(user),
    });
  }
}

/** A collection narrowed to one name counts as a request for that name. */
function accessTo(target: ResourceTarget, selectedName: string): ResourceAttributes {
  const { group, plural, subresource, namespace, name } = target;
  // Deleting or changing a namespace is a matter of that namespace.
  const ownNamespace = group === "" && plural === "namespaces" ? name : undefined;
  return {
    group,
    resource: plural,
    subresource,
    namespace: namespace ?? ownNamespace,
    name: name ?? selectedName,
  };
}
