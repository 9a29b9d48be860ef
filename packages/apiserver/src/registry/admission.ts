import type { Replay } from "./replay.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject, ObjectReader, UserInfo } from "#values/object.ts";
import type { Write } from "./write.ts";

/** Admission: what else has a say in a write, after authorization. Source: k8s.io/apiserver, pkg/admission. */

export type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** One request, as admission sees it. */
export interface Attributes {
  readonly operation: Operation;
  /** The resource that the request addresses. */
  readonly definition: ResourceDefinition;
  /** Empty for the main resource. */
  readonly subresource: string;
  /** Of the object; subresources such as scale have kinds of their own. */
  readonly kind: GroupVersionKind;
  /** Empty while the server has not made one up, and for deletions of collections. */
  readonly name: string;
  /** That of the object, or the namespace itself; empty for what is cluster-scoped. */
  readonly namespace: string;
  /** Absent for DELETE. Never changed in place. */
  readonly object: ApiObject | undefined;
  /** Absent for CREATE and CONNECT. */
  readonly old: ApiObject | undefined;
  readonly user: UserInfo;
  readonly dryRun: boolean;
  /** CreateOptions, UpdateOptions, PatchOptions or DeleteOptions. */
  readonly options: () => Readonly<Record<string, unknown>> | undefined;
  readonly reader: ObjectReader;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
  warn(message: string): void;
  /** Leaves a note in the audit log. */
  annotate(key: string, value: string): void;
  readonly replay: Replay;
  /** The write that this is about, for what has to be written with it. */
  readonly write: Write;
}

/** The admission of a server. All is synchronous; who has to wait throws `Pending`. */
export interface Admission {
  /** Whether webhooks or policies are configured that may change, or have to be waited for in, writes of `definition`. */
  isActive(definition: ResourceDefinition): boolean;
  /** The object with what plugins make of it; itself where they change nothing. @throws {StatusError} a refusal. */
  mutate(attributes: Attributes): ApiObject | undefined;
  /** @throws {StatusError} a refusal. */
  validate(attributes: Attributes): void;
}

/** Lets everything pass as it is. */
export const NO_ADMISSION: Admission = {
  isActive: () => false,
  mutate: ({ object }) => object,
  validate() {},
};

export interface Subject {
  readonly operation: Operation;
  readonly object: ApiObject | undefined;
  readonly old: ApiObject | undefined;
  /** Default: that of the object, or of the path. */
  readonly name?: string;
  /** Default: the resource's own. */
  readonly kind?: GroupVersionKind;
}

export function attributesOf(write: Write, subject: Subject): Attributes {
  const { env, tx, request, replay } = write;
  const { definition, subresource, user, dryRun, warn, options, annotate } = request;
  const { operation, object, old } = subject;
  const name = subject.name ?? request.name ?? object?.metadata.name ?? "";
  const isNamespace = definition.group === "" && definition.plural === "namespaces";
  return {
    operation,
    definition,
    subresource,
    kind: subject.kind ?? definition,
    name,
    namespace: isNamespace ? name : (request.namespace ?? ""),
    object,
    old,
    user,
    dryRun,
    options: options ?? (() => undefined),
    reader: env.reader,
    nowMs: tx.nowMs,
    warn,
    annotate: annotate ?? (() => {}),
    replay,
    write,
  };
}
