import { defined } from "@fairlead/base/defined.ts";
import { cloneJson, sameJson } from "@fairlead/base/json.ts";
import { ensureFields, fieldsAt, itemsAt, textAt } from "@fairlead/base/fields.ts";
import { timestamp } from "#registry/metadata.ts";
import { checkPathSegment } from "#values/names.ts";
import type { Strategy, WriteContext } from "#registry/types.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import { forbidden, type StatusError } from "#status.ts";
import { mayImpersonate } from "../impersonate.ts";
import { type Authorizer, MASTERS_GROUP } from "#values/authorizer.ts";
import { type CertificateRequest, parseCertificateRequest } from "@fairlead/base/pki/request.ts";
import { API_CLIENT, SIGNERS } from "./signers.ts";
import { ofType, validateProgress, validateRequest } from "./validate.ts";

/**
 * CertificateSigningRequests. Source: k8s.io/kubernetes, pkg/registry/certificates and the admission plugins
 * CertificateApproval, CertificateSigning and CertificateSubjectRestriction.
 */

const GROUP = "certificates.k8s.io";
const PLURAL = "certificatesigningrequests";

export function signingRequestStrategy(authorizer: Authorizer): Partial<Strategy> {
  return {
    generation: "none",
    checkName: checkPathSegment,
    prepareForCreate: takeRequester,
    prepareForUpdate: keepWhatIsFixed,
    validateCreate: (object) => {
      const errors = validateRequest(object);
      if (errors.length === 0) refuseMasters(object);
      return errors;
    },
    validateUpdate: (object, old, context) => {
      const errors = [...validateRequest(object), ...validateProgress(object, old, context.subresource)];
      if (errors.length === 0) checkPermission(object, old, context, authorizer);
      return errors;
    },
    fieldSelectors: { "spec.signerName": (object) => textAt(fieldsAt(object, "spec"), "signerName") },
  };
}

/** The requester is the authenticated user, whatever the request contains. */
function takeRequester(object: ApiObject, { user }: WriteContext): void {
  const spec = ensureFields(object, "spec");
  for (const key of ["uid", "groups", "extra"]) delete spec[key];
  spec["username"] = user.name;
  if (user.uid !== undefined) spec["uid"] = user.uid;
  if (user.groups.length > 0) spec["groups"] = [...user.groups];
  if (user.extra !== undefined) spec["extra"] = cloneJson(user.extra);
  object["status"] = {};
  // The server sets all fields, so there are no field managers.
  delete object.metadata.managedFields;
}

/** The spec is immutable; `approval` changes conditions, `status` conditions and the certificate. */
function keepWhatIsFixed(object: ApiObject, old: ApiObject, { subresource, nowMs }: WriteContext): void {
  object["spec"] = cloneJson(old["spec"]);
  const before = fieldsAt(old, "status") ?? {};
  if (subresource === "") {
    object["status"] = cloneJson(before);
    return;
  }
  const status = ensureFields(object, "status");
  if (subresource === "approval") {
    const { conditions } = status;
    object["status"] = { ...cloneJson(before), ...defined({ conditions }) };
    if (conditions === undefined) delete fieldsAt(object, "status")?.["conditions"];
  } else {
    keepApproval(object, old);
  }
  for (const condition of itemsAt(fieldsAt(object, "status"), "conditions")) {
    const since = itemsAt(before, "conditions").find(
      (it) => it["type"] === condition["type"] && it["status"] === condition["status"],
    );
    condition["lastUpdateTime"] ??= timestamp(nowMs);
    condition["lastTransitionTime"] ??= since?.["lastTransitionTime"] ?? timestamp(nowMs);
  }
}

/** Through `status`, a yes or no stays word for word what it was. */
function keepApproval(object: ApiObject, old: ApiObject): void {
  const status = fieldsAt(object, "status");
  for (const type of ["Approved", "Denied"]) {
    const before = ofType(fieldsAt(old, "status"), type);
    const now = ofType(status, type);
    if (before.length !== now.length) continue;
    for (const [index, condition] of now.entries()) Object.assign(condition, cloneJson(before[index]));
  }
}

function refusal({ metadata }: ApiObject, why: string): StatusError {
  return forbidden({ group: GROUP, plural: PLURAL }, metadata.name, why);
}

function requestOf(object: ApiObject): CertificateRequest {
  const encoded = textAt(fieldsAt(object, "spec"), "request");
  return parseCertificateRequest(Buffer.from(encoded, "base64").toString("latin1"));
}

function refuseMasters(object: ApiObject): void {
  const signer = textAt(fieldsAt(object, "spec"), "signerName");
  if (signer !== API_CLIENT || !requestOf(object).organizations.includes(MASTERS_GROUP)) return;
  throw refusal(object, `use of ${API_CLIENT} signer with ${MASTERS_GROUP} group is not allowed`);
}

/** Beyond the update itself: `approve` or `sign` on the signer (RBAC resource `signers`), by its name or `domain/*`. */
function checkPermission(
  object: ApiObject,
  old: ApiObject,
  { subresource, user }: WriteContext,
  authorizer: Authorizer,
): void {
  const signer = textAt(fieldsAt(old, "spec"), "signerName");
  const may = (verb: string): boolean =>
    [signer, `${signer.split("/")[0] ?? ""}/*`].some((name) => {
      const resource = { group: GROUP, resource: "signers", subresource: "", namespace: undefined, name };
      return authorizer.authorize({ user, verb, resource }).allowed;
    });
  if (subresource === "approval") {
    if (!may("approve")) {
      throw refusal(object, `user not permitted to approve requests with signerName "${signer}"`);
    }
    if (isNewlyApproved(object, old) && SIGNERS.has(signer)) checkIdentity(object, user, authorizer);
  }
  if (subresource !== "status" || sameJson(object["status"], old["status"])) return;
  if (!may("sign")) throw refusal(object, `user not permitted to sign requests with signerName "${signer}"`);
}

function isNewlyApproved(object: ApiObject, old: ApiObject): boolean {
  const count = (it: ApiObject): number => ofType(fieldsAt(it, "status"), "Approved").length;
  return count(object) > count(old);
}

/**
 * The identity in the certificate must be the requester, or a user that the approver could impersonate. Otherwise an
 * approver that checks only the requester, as approvers of renewals do, would issue certificates for any identity
 * (CVE-2026-4740). See docs/adr/0010-certificates-are-not-for-others.md.
 */
function checkIdentity(object: ApiObject, approver: UserInfo, authorizer: Authorizer): void {
  const { commonName, organizations } = requestOf(object);
  const spec = fieldsAt(object, "spec");
  const held = new Set(Array.isArray(spec?.["groups"]) ? spec["groups"] : []);
  if (organizations.includes(MASTERS_GROUP)) {
    throw refusal(object, `a certificate for the group ${MASTERS_GROUP} cannot be approved`);
  }
  const isOwn = textAt(spec, "username") === commonName && organizations.every((it) => held.has(it));
  if (isOwn || mayImpersonate(approver, { name: commonName, groups: organizations }, authorizer)) return;
  const groups = organizations.map((it) => JSON.stringify(it)).join(" ");
  const why =
    `the subject (user ${JSON.stringify(commonName)}, groups=[${groups}]) is neither the requester's own identity ` +
    `nor one that user ${JSON.stringify(approver.name)} may impersonate`;
  throw refusal(object, why);
}
