import { isObject } from "@fairlead/base/json.ts";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import type { Attributes, GroupVersionKind } from "#registry/admission.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { badRequest, StatusError } from "#status.ts";
import { convertObject, type Match } from "../match.ts";

/** Requests to webhooks, and their responses. Source: `admission.k8s.io/v1`. */

const VERSIONS = new Set(["v1", "v1beta1"]);

/** The request of an AdmissionReview, without its uid. */
export function reviewRequest(attributes: Attributes, match: Match): Readonly<Record<string, unknown>> {
  const { definition, subresource, kind, name, namespace, operation, object, old, dryRun } = attributes;
  const versioned = (it: typeof object): unknown =>
    it === undefined ? null : convertObject(it, definition, match.resource);
  const sub = (field: string): object => (subresource === "" ? {} : { [field]: subresource });
  return {
    kind: kindOf(match.kind),
    resource: resourceOf(match.resource),
    ...sub("subResource"),
    requestKind: kindOf(kind),
    requestResource: resourceOf(definition),
    ...sub("requestSubResource"),
    ...(name === "" ? {} : { name }),
    ...(namespace === "" ? {} : { namespace }),
    operation,
    userInfo: userInfoOf(attributes),
    object: versioned(object),
    oldObject: versioned(old),
    dryRun,
    options: attributes.options() ?? null,
  };
}

function kindOf({ group, version, kind }: GroupVersionKind): GroupVersionKind {
  return { group, version, kind };
}

function resourceOf({ group, version, plural }: ResourceDefinition): object {
  return { group, version, resource: plural };
}

function userInfoOf({ user }: Attributes): object {
  const { name, uid = "", groups, extra = {} } = user;
  return {
    username: name,
    ...(uid === "" ? {} : { uid }),
    ...(groups.length === 0 ? {} : { groups }),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  };
}

/** The version of AdmissionReview that a webhook wants; undefined when this server knows none that it takes. */
export function reviewVersion(versions: readonly string[]): string | undefined {
  return versions.find((it) => VERSIONS.has(it));
}

export interface Verdict {
  readonly allowed: boolean;
  readonly status: Partial<Status> | undefined;
  /** JSON of the patch; undefined: none. */
  readonly patch: string | undefined;
  readonly warnings: readonly string[];
  readonly auditAnnotations: Readonly<Record<string, string>>;
}

/** @throws {Error} saying what is wrong with the answer. */
export function readVerdict(
  review: unknown,
  {
    uid,
    version,
    isMutating,
  }: { readonly uid: string; readonly version: string; readonly isMutating: boolean },
): Verdict {
  const response = isObject(review) ? review["response"] : undefined;
  if (!isObject(review) || !isObject(response)) throw new Error("webhook response was absent");
  const { patch, patchType } = response;
  const hasPatch = typeof patch === "string" && patch !== "";
  if (version === "v1") {
    checkIdentity(review, response, uid);
    checkPatch(hasPatch, patchType ?? undefined, isMutating);
  }
  const status = isObject(response["status"]) ? (response["status"] as Partial<Status>) : undefined;
  return {
    allowed: response["allowed"] === true,
    status,
    patch: isMutating && hasPatch ? Buffer.from(patch, "base64").toString("utf8") : undefined,
    warnings: textsOf(response["warnings"]),
    auditAnnotations: isObject(response["auditAnnotations"])
      ? (response["auditAnnotations"] as Record<string, string>)
      : {},
  };
}

function checkIdentity(
  review: Record<string, unknown>,
  response: Record<string, unknown>,
  uid: string,
): void {
  const sent = typeof response["uid"] === "string" ? response["uid"] : "";
  if (sent !== uid)
    throw new Error(`expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(sent)}`);
  const { apiVersion = "", kind = "" } = review;
  if (apiVersion === "admission.k8s.io/v1" && kind === "AdmissionReview") return;
  const got = `${String(apiVersion)}, Kind=${String(kind)}`;
  throw new Error(`expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${got}`);
}

function checkPatch(hasPatch: boolean, patchType: unknown, isMutating: boolean): void {
  if (!isMutating) {
    if (hasPatch) throw new Error("validating webhook may not return response.patch");
    if (patchType !== undefined) throw new Error("validating webhook may not return response.patchType");
    return;
  }
  if (hasPatch && patchType === undefined) {
    throw new Error("webhook returned response.patch but not response.patchType");
  }
  if (!hasPatch && patchType !== undefined) {
    throw new Error("webhook returned response.patchType but not response.patch");
  }
  if (patchType === "") throw new Error('webhook returned invalid response.patchType of ""');
  if (hasPatch && patchType !== "JSONPatch")
    throw new Error(`unsupported patch type ${JSON.stringify(patchType)}`);
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((it) => typeof it === "string") : [];
}

/** The refusal that a webhook's "no" is to the client. */
export function denied(webhook: string, status: Partial<Status> = {}): StatusError {
  const by = `admission webhook ${JSON.stringify(webhook)} denied the request`;
  const { message = "", reason = "", code = 0 } = status;
  const why = message === "" ? reason : message;
  const { status: _word, metadata: _metadata, ...rest } = status;
  return new StatusError({
    ...rest,
    code: Math.max(400, code),
    message: why === "" ? `${by} without explanation` : `${by}: ${why}`,
  });
}

export function dryRunUnsupported(webhook: string): StatusError {
  return badRequest(`admission webhook ${JSON.stringify(webhook)} does not support dry run`);
}
