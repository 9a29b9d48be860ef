import { defined } from "@fairlead/base/defined.ts";
import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { invalidValue, timestamp } from "#registry/metadata.ts";
import { schemaOf } from "#builtin/define.ts";
import {
  ensureFields,
  fieldsAt,
  type Fields,
  numberAt,
  setDefault,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import type { ReviewDefinition, ReviewRequest } from "#registry/types.ts";
import type { ApiObject, ObjectReader, UserInfo } from "#values/object.ts";
import { badRequest, conflict, invalid, notFound, StatusError } from "#status.ts";
import type { Authenticator } from "./authenticate.ts";
import type { BoundObject, ServiceAccountTokens } from "./tokens.ts";

/** TokenReview, SelfSubjectReview and TokenRequest. Source: k8s.io/kubernetes, pkg/registry/authentication and core/serviceaccount. */

const GROUP = "authentication.k8s.io";
const ACCOUNTS = { group: "", plural: "serviceaccounts" };

export interface AuthenticationReviewOptions {
  readonly authenticator: Authenticator;
  readonly serviceAccountTokens: ServiceAccountTokens;
  readonly newUid: () => string;
}

export function authenticationReviews(options: AuthenticationReviewOptions): readonly ReviewDefinition[] {
  const version = { group: GROUP, version: "v1", namespaced: false };
  return [
    {
      ...version,
      plural: "tokenreviews",
      kind: "TokenReview",
      schema: schemaOf(`${GROUP}/v1`, "TokenReview"),
      review: (request) => reviewToken(request, options),
    },
    {
      ...version,
      plural: "selfsubjectreviews",
      kind: "SelfSubjectReview",
      schema: schemaOf(`${GROUP}/v1`, "SelfSubjectReview"),
      review: ({ object: { apiVersion, kind }, user, nowMs }) => ({
        apiVersion,
        kind,
        metadata: { creationTimestamp: timestamp(nowMs) } as ObjectMeta,
        status: { userInfo: describeUser(user) },
      }),
    },
    {
      group: "",
      version: "v1",
      namespaced: true,
      parent: "serviceaccounts",
      plural: "token",
      kind: "TokenRequest",
      kindApiVersion: `${GROUP}/v1`,
      schema: schemaOf(`${GROUP}/v1`, "TokenRequest"),
      applyDefaults: (object) => {
        setDefault(ensureFields(object, "spec"), "expirationSeconds", DEFAULT_LIFETIME);
      },
      review: (request) => requestToken(request, options),
    },
  ];
}

function describeUser(user: UserInfo): Fields {
  return {
    username: user.name,
    ...(user.uid === undefined ? {} : { uid: user.uid }),
    groups: [...user.groups],
    ...(user.extra === undefined ? {} : { extra: user.extra }),
  };
}

async function reviewToken(
  { object, reader, nowMs }: ReviewRequest,
  { authenticator, serviceAccountTokens }: AuthenticationReviewOptions,
): Promise<ApiObject> {
  const spec = fieldsAt(object, "spec");
  const token = textAt(spec, "token");
  if (token === "") throw badRequest("token is required for TokenReview in authentication");
  const asked = stringsAt(spec, "audiences");
  const audiences = asked.length > 0 ? asked : serviceAccountTokens.audiences;
  try {
    const identity = await authenticator.authenticateToken(token, audiences, { reader, nowMs });
    const user = describeUser(identity.user);
    return { ...object, status: { authenticated: true, user, audiences: [...identity.audiences] } };
  } catch (error) {
    if (!(error instanceof StatusError) || error.code !== 401) throw error;
    return { ...object, status: { user: {}, error: "invalid bearer token" } };
  }
}

/** Unit: seconds. */
const MIN_LIFETIME = 600;
const MAX_LIFETIME = 2 ** 32;
const DEFAULT_LIFETIME = 3600;

async function requestToken(
  request: ReviewRequest,
  { serviceAccountTokens, newUid }: AuthenticationReviewOptions,
): Promise<ApiObject> {
  const { object, namespace = "", name = "", reader, nowMs } = request;
  const asked = object.metadata as Partial<ObjectMeta>;
  checkName(asked.name, name);
  const account = reader.get("", "serviceaccounts", namespace, name);
  if (account === undefined) throw notFound(ACCOUNTS, name);
  checkUid(asked.uid, account);
  const spec = fieldsAt(object, "spec");
  const expirationSeconds = numberAt(spec, "expirationSeconds") ?? 0;
  checkLifetime(expirationSeconds);
  const wanted = stringsAt(spec, "audiences");
  const audiences = wanted.length > 0 ? wanted : serviceAccountTokens.audiences;
  const bound = findBound(fieldsAt(spec, "boundObjectRef"), namespace, request);
  const token = await serviceAccountTokens.sign({
    namespace,
    serviceAccount: { name, uid: account.metadata.uid ?? "" },
    audiences,
    expirationSeconds,
    ...bound,
    nowMs,
    id: newUid(),
  });
  const expiresMs = (Math.floor(nowMs / 1000) + expirationSeconds) * 1000;
  const expirationTimestamp = `${new Date(expiresMs).toISOString().slice(0, 19)}Z`;
  return {
    ...object,
    metadata: { ...object.metadata, ...identityOf(account), creationTimestamp: timestamp(nowMs) },
    spec: { boundObjectRef: null, ...spec, audiences: [...audiences], expirationSeconds },
    status: { token, expirationTimestamp },
  };
}

/** If the body names the account, the name must equal that in the path. */
function checkName(asked: string | undefined, name: string): void {
  if (asked === undefined || asked === "" || asked === name) return;
  throw invalid(GROUP, "TokenRequest", name, [
    invalidValue("metadata.name", asked, "must match the service account name if specified"),
  ]);
}

/** A client that names the uid means that account, and not another one of the same name. */
function checkUid(asked: string | undefined, { metadata: { name, uid = "" } }: ApiObject): void {
  if (asked === undefined || asked === "" || asked === uid) return;
  const why = `the UID in the token request (${asked}) does not match the UID of the service account (${uid})`;
  throw conflict({ group: GROUP, plural: "TokenRequest" }, name, why);
}

function checkLifetime(seconds: number): void {
  const problems = [];
  if (seconds < MIN_LIFETIME) problems.push("may not specify a duration less than 10 minutes");
  if (seconds > MAX_LIFETIME) problems.push("may not specify a duration larger than 2^32 seconds");
  if (problems.length === 0) return;
  throw invalid(
    GROUP,
    "TokenRequest",
    "",
    problems.map((it) => ({
      type: "FieldValueInvalid",
      field: "spec.expirationSeconds",
      message: `Invalid value: ${seconds}: ${it}`,
    })),
  );
}

/** The request becomes one of the ServiceAccount's. */
function identityOf({ metadata }: ApiObject): ObjectMeta {
  const { name, namespace, uid } = metadata;
  return {
    name,
    ...defined({ namespace, uid }),
  };
}

interface Bound {
  readonly pod?: BoundObject;
  readonly secret?: BoundObject;
  readonly node?: BoundObject;
}

/** The object that the token is bound to. A pod's token also contains the node of the pod. */
function findBound(ref: Fields | undefined, namespace: string, request: ReviewRequest): Bound {
  if (ref === undefined) return {};
  const { reader } = request;
  const kind = textAt(ref, "kind");
  switch (kind) {
    case "Pod": {
      const pod = getBound(ref, "pods", namespace, reader);
      const spec = fieldsAt(pod, "spec");
      if (textAt(spec, "serviceAccountName") !== request.name) {
        const why = `cannot bind token for serviceaccount "${request.name ?? ""}" to pod running with different serviceaccount name.`;
        throw badRequest(why);
      }
      const node = reader.get("", "nodes", undefined, textAt(spec, "nodeName"));
      return { pod: boundTo(pod), ...(node === undefined ? {} : { node: boundTo(node) }) };
    }
    case "Secret":
      return { secret: boundTo(getBound(ref, "secrets", namespace, reader)) };
    case "Node":
      return { node: boundTo(getBound(ref, "nodes", undefined, reader)) };
    default:
      throw badRequest(`cannot bind token to object of type ${groupVersionOf(ref)}, Kind=${kind}`);
  }
}

function getBound(
  ref: Fields,
  plural: string,
  namespace: string | undefined,
  reader: ObjectReader,
): ApiObject {
  const name = textAt(ref, "name");
  const found = reader.get("", plural, namespace, name);
  if (found === undefined) throw notFound({ group: "", plural }, name);
  const uid = textAt(ref, "uid");
  if (uid === "" || uid === found.metadata.uid) return found;
  const why = `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`;
  throw conflict({ group: "", plural }, name, why);
}

function boundTo({ metadata }: ApiObject): BoundObject {
  return { name: metadata.name, uid: metadata.uid ?? "" };
}

/** As Go prints it: the core group is empty. */
function groupVersionOf(ref: Fields): string {
  const apiVersion = textAt(ref, "apiVersion");
  return apiVersion.includes("/") ? apiVersion : `/${apiVersion}`;
}
