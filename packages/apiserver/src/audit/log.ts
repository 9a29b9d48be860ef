import { defined } from "@fairlead/base/defined.ts";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { Attributes, Decision } from "#values/authorizer.ts";
import type { UserInfo } from "#values/object.ts";
import { type AuditPolicy, type AuditStage, LOG_ALL, omittedStages } from "./policy.ts";

/** Requests, their users and their results: events of audit.k8s.io/v1 at level Metadata. They never contain bodies or tokens. */

export interface AuditOptions {
  /** Default: every request. */
  readonly policy?: AuditPolicy;
  /** Takes one line of JSON. Must not wait, and must not fail. */
  readonly write: (line: string) => void;
}

export interface AuditedRequest {
  /** The header Audit-ID of the answer. */
  readonly id: string;
  readonly uri: string;
  readonly sourceIp: string;
  readonly userAgent: string;
  /** Version of the API that the request names; empty for paths. */
  readonly version: string;
  /** With the user who sent the request, not one that is impersonated. */
  readonly attributes: Attributes;
}

export class AuditLog {
  readonly #policy: AuditPolicy;
  readonly #write: (line: string) => void;
  readonly #clock: Clock;

  constructor({ policy = LOG_ALL, write }: AuditOptions, clock: Clock) {
    this.#policy = policy;
    this.#write = write;
    this.#clock = clock;
  }

  /** Undefined when the policy wants nothing of this request. */
  open(request: AuditedRequest): AuditRecord | undefined {
    const omitted = omittedStages(this.#policy, request.attributes);
    if (omitted === undefined) return undefined;
    return new AuditRecord(request, { omitted, write: this.#write, clock: this.#clock });
  }
}

interface RecordContext {
  readonly omitted: readonly string[];
  readonly write: (line: string) => void;
  readonly clock: Clock;
}

/** One request on its way. */
export class AuditRecord {
  readonly #request: AuditedRequest;
  readonly #context: RecordContext;
  readonly #receivedAt: string;
  #impersonated: UserInfo | undefined;
  #annotations: Readonly<Record<string, string>> | undefined;
  #isOver = false;

  constructor(request: AuditedRequest, context: RecordContext) {
    this.#request = request;
    this.#context = context;
    this.#receivedAt = microTime(context.clock.now());
  }

  impersonates(user: UserInfo): void {
    this.#impersonated = user;
  }

  decided({ allowed, reason }: Decision): void {
    this.#annotations = {
      "authorization.k8s.io/decision": allowed ? "allow" : "forbid",
      "authorization.k8s.io/reason": reason,
    };
  }

  received(): void {
    this.#emit("RequestReceived");
  }

  /** The head of the answer is sent, the rest takes its time. */
  started(status: Partial<Status>): void {
    this.#emit("ResponseStarted", status);
  }

  /** The last one; what comes after is not written. */
  finished(status: Partial<Status>, stage: AuditStage = "ResponseComplete"): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#emit(stage, status);
  }

  #emit(stage: AuditStage, status?: Partial<Status>): void {
    const { omitted, write, clock } = this.#context;
    if (omitted.includes(stage)) return;
    const { id, uri, sourceIp, userAgent, attributes } = this.#request;
    const event = {
      kind: "Event",
      apiVersion: "audit.k8s.io/v1",
      level: "Metadata",
      auditID: id,
      stage,
      requestURI: uri,
      verb: attributes.verb,
      user: describeUser(attributes.user),
      ...(this.#impersonated === undefined ? {} : { impersonatedUser: describeUser(this.#impersonated) }),
      sourceIPs: [sourceIp],
      ...(userAgent === "" ? {} : { userAgent }),
      ...this.#objectRef(),
      ...(status === undefined ? {} : { responseStatus: describeStatus(status) }),
      requestReceivedTimestamp: this.#receivedAt,
      stageTimestamp: microTime(clock.now()),
      ...(this.#annotations === undefined ? {} : { annotations: this.#annotations }),
    };
    write(JSON.stringify(event));
  }

  #objectRef(): object {
    const { attributes, version } = this.#request;
    if ("path" in attributes) return {};
    const { group, resource, subresource, namespace, name } = attributes.resource;
    const objectRef = {
      resource,
      ...defined({ namespace }),
      ...(name === "" ? {} : { name }),
      ...(group === "" ? {} : { apiGroup: group }),
      apiVersion: version,
      ...(subresource === "" ? {} : { subresource }),
    };
    return { objectRef };
  }
}

function describeUser({ name, uid, groups, extra }: UserInfo): object {
  return {
    ...(name === "" ? {} : { username: name }),
    ...defined({ uid }),
    ...(groups.length === 0 ? {} : { groups }),
    ...defined({ extra }),
  };
}

/** The status that a rejected client received. */
function describeStatus({ status, message, reason, details, code }: Partial<Status>): object {
  return {
    metadata: {},
    ...defined({ status, message, reason, details, code }),
  };
}

/** Times of events have six digits. */
function microTime(nowMs: number): string {
  return new Date(nowMs).toISOString().replace("Z", "000Z");
}
