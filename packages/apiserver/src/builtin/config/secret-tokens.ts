import { createHash, sign, type KeyObject } from "node:crypto";
import type { JWTPayload } from "jose";
import { ensureFields, fieldsAt, textAt } from "@fairlead/base/fields.ts";
import type { ApiObject, ObjectReader } from "#values/object.ts";
import { serviceAccountUser } from "#values/service-account.ts";

/**
 * Tokens that Secrets of the type `kubernetes.io/service-account-token` hold. They have no end of their own: they are
 * good for as long as the Secret holds them. Source: k8s.io/kubernetes, pkg/serviceaccount/legacy.go.
 */

export const SECRET_ISSUER = "kubernetes/serviceaccount";
export const TOKEN_SECRET_TYPE = "kubernetes.io/service-account-token";
export const ACCOUNT_NAME_ANNOTATION = "kubernetes.io/service-account.name";
const ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid";
const CLAIM = "kubernetes.io/serviceaccount/";

export interface SigningKey {
  readonly privateKey: KeyObject;
  readonly algorithm: "ES256" | "RS256";
  readonly keyId: string;
}

/** The id by which a token names its key: a digest of the public half. */
export function keyIdOf(publicKey: KeyObject): string {
  const der = publicKey.export({ type: "spki", format: "der" });
  return createHash("sha256").update(der).digest("base64url");
}

export interface SecretTokenOptions {
  readonly key: SigningKey;
  /** PEM of the authority of the API server's certificate. */
  readonly rootCa?: string | undefined;
}

/**
 * Fills a Secret that names a ServiceAccount and has no token yet. One whose ServiceAccount does not exist stays as it is.
 *
 * Signed without `jose`, which answers later only: the token is in the Secret from its first version on.
 */
export function fillTokenSecret(secret: ApiObject, reader: ObjectReader, options: SecretTokenOptions): void {
  const { namespace = "", name, annotations = {} } = secret.metadata;
  if (textAt(secret, "type") !== TOKEN_SECRET_TYPE) return;
  const account = reader.get("", "serviceaccounts", namespace, annotations[ACCOUNT_NAME_ANNOTATION] ?? "");
  if (account === undefined || textAt(fieldsAt(secret, "data"), "token") !== "") return;
  const { name: accountName, uid = "" } = account.metadata;
  const token = signNow(options.key, {
    iss: SECRET_ISSUER,
    [`${CLAIM}namespace`]: namespace,
    [`${CLAIM}secret.name`]: name,
    [`${CLAIM}service-account.name`]: accountName,
    [`${CLAIM}service-account.uid`]: uid,
    sub: serviceAccountUser(namespace, accountName),
  });
  secret.metadata.annotations = { ...annotations, [ACCOUNT_UID_ANNOTATION]: uid };
  const data = ensureFields(secret, "data");
  data["token"] = base64(token);
  data["namespace"] = base64(namespace);
  if (options.rootCa !== undefined) data["ca.crt"] = base64(options.rootCa);
}

/** RFC 7515, section 3.1, with the signature of ES256 as section 3.4 of RFC 7518 wants it. */
function signNow({ privateKey, algorithm, keyId }: SigningKey, claims: object): string {
  const head = Buffer.from(JSON.stringify({ alg: algorithm, kid: keyId })).toString("base64url");
  const body = Buffer.from(JSON.stringify(claims)).toString("base64url");
  const signature = sign("sha256", Buffer.from(`${head}.${body}`), {
    key: privateKey,
    dsaEncoding: "ieee-p1363",
  });
  return `${head}.${body}.${signature.toString("base64url")}`;
}

export interface SecretTokenClaims {
  readonly namespace: string;
  readonly serviceaccount: { readonly name: string; readonly uid: string };
  readonly secretName: string;
}

export function parseSecretTokenClaims(payload: JWTPayload): SecretTokenClaims | undefined {
  const [namespace, secretName, name, uid] = [
    "namespace",
    "secret.name",
    "service-account.name",
    "service-account.uid",
  ].map((it) => textAt(payload, `${CLAIM}${it}`));
  if (!namespace || !secretName || !name || !uid) return undefined;
  return { namespace, secretName, serviceaccount: { name, uid } };
}

/** Whether the Secret that a token came from is there and still holds it. */
export function isHeldBySecret(token: string, claims: SecretTokenClaims, reader: ObjectReader): boolean {
  const secret = reader.get("", "secrets", claims.namespace, claims.secretName);
  if (secret === undefined || secret.metadata.deletionTimestamp !== undefined) return false;
  return textAt(fieldsAt(secret, "data"), "token") === base64(token);
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
