import { X509Certificate } from "node:crypto";
import type { Secret } from "@fairlead/kube/api/core/v1/types.ts";
import { MEMBERS_GROUP, parseMemberUser } from "./identity.ts";
import { isClusterName } from "./cluster-names.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";

/** Life that a member asks for its token. The hub may give less. Unit: seconds. */
export const TOKEN_SECONDS = 86_400;

/** Keys of the Secret by which a member finds its hub. Those of the first group are `fairlead join`'s. */
export const HUB_KEYS = {
  server: "server",
  ca: "ca.crt",
  /** "true": the CA is the hub's own, so the agent follows its ConfigMap kube-root-ca.crt. */
  followCa: "follow-ca",
  cluster: "cluster",
  /** The user name for certificate requests. Absent if the identity is a ServiceAccount. */
  user: "user",
  /** Good for one certificate. */
  bootstrapToken: "bootstrap-token",
  /** Of the member's ServiceAccount on the hub, where that is its identity. The agent renews it. */
  token: "token",

  /** The agent's: its certificate, its key, and the key of the certificate that it is waiting for. */
  certificate: "tls.crt",
  key: "tls.key",
  nextKey: "next.key",
  /** The key of the certificate for the hub to which the fleet has moved, until the member has switched to it. */
  nextHubKey: "next-hub.key",
} as const;

/** The credentials of the member. */
export type Proof =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "certificate"; readonly user: string; readonly pair: CertificatePair }
  /** There is no certificate yet: the token is for asking for one. */
  | { readonly kind: "bootstrap"; readonly user: string; readonly token: string };

/** The address and the credentials with which this member reaches its hub. */
export interface HubAccess {
  readonly server: string;
  /** PEM; undefined: the certificates of the system. */
  readonly ca: string | undefined;
  readonly followCa: boolean;
  /** The member's name, which is its cluster id. */
  readonly cluster: string;
  readonly proof: Proof;
}

export type ReadAccess =
  | { readonly kind: "access"; readonly access: HubAccess }
  | { readonly kind: "problem"; readonly problem: string };

/** Parses the Secret, or describes why it cannot be used. */
export function readHubSecret(secret: Secret): ReadAccess {
  const field = (name: string): string =>
    Buffer.from(secret.data?.[name] ?? "", "base64")
      .toString("utf8")
      .trim();
  const [server, cluster] = [field(HUB_KEYS.server), field(HUB_KEYS.cluster)];
  const found = isClusterName(cluster) ? readProof(cluster, field) : { problem: "" };
  const problem = [
    URL.canParse(server) && server.startsWith("https://") ? undefined : "server is not an https URL",
    isClusterName(cluster) ? undefined : "cluster is not the name of a member",
    "problem" in found ? found.problem : undefined,
  ].find((it) => it !== undefined);
  if (problem !== undefined || "problem" in found) return { kind: "problem", problem: problem ?? "" };
  const access: HubAccess = {
    server,
    ca: field(HUB_KEYS.ca) || undefined,
    followCa: field(HUB_KEYS.followCa) === "true",
    cluster,
    proof: found,
  };
  return { kind: "access", access };
}

function readProof(cluster: string, field: (name: string) => string): Proof | { readonly problem: string } {
  const user = field(HUB_KEYS.user);
  const token = field(HUB_KEYS.token);
  if (user === "") return token === "" ? { problem: "user and token are missing" } : { kind: "token", token };
  if (parseMemberUser(user)?.cluster !== cluster) return { problem: `user is not one of member ${cluster}` };
  const pair = { cert: field(HUB_KEYS.certificate), key: field(HUB_KEYS.key) };
  // Whether it is still in time is for the hub to say: clocks may differ.
  if (pair.cert !== "" && pair.key !== "" && subjectOf(pair.cert) === user)
    return { kind: "certificate", user, pair };
  const bootstrap = field(HUB_KEYS.bootstrapToken);
  if (bootstrap !== "") return { kind: "bootstrap", user, token: bootstrap };
  return {
    problem: `has neither a certificate for ${user} nor a token to request one; run "fairlead join ${cluster}" again`,
  };
}

/** The user name in a certificate; undefined if it is not the certificate of a member. */
function subjectOf(pem: string): string | undefined {
  try {
    const { subject } = new X509Certificate(pem).toLegacyObject();
    const fields: unknown = subject;
    return isObject(fields) && fields["O"] === MEMBERS_GROUP && typeof fields["CN"] === "string"
      ? fields["CN"]
      : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a session can continue with the new Secret: only renewable values may differ. */
export function isSameHub(a: HubAccess, b: HubAccess): boolean {
  return (
    a.server === b.server &&
    a.cluster === b.cluster &&
    a.followCa === b.followCa &&
    a.proof.kind === b.proof.kind &&
    (a.proof.kind === "token" || b.proof.kind === "token" || a.proof.user === b.proof.user)
  );
}

const JOIN_KEYS = [
  HUB_KEYS.server,
  HUB_KEYS.ca,
  HUB_KEYS.cluster,
  HUB_KEYS.user,
  HUB_KEYS.bootstrapToken,
  HUB_KEYS.token,
];

/** Whether another client changed the Secret, so that a failed request may succeed now. */
export function isChangedByOthers(before: Secret | undefined, after: Secret | undefined): boolean {
  return JOIN_KEYS.some((key) => before?.data?.[key] !== after?.data?.[key]);
}

/** From when to when a proof is good. Unit: milliseconds since the Unix epoch. */
export interface Life {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * When a token was made and when it ends, by its own word (RFC 7519). Not verified: that is the hub's part.
 *
 * @returns Undefined for tokens that do not say, which do not end.
 */
export function readTokenLife(token: string): Life | undefined {
  const [, payload] = token.split(".");
  if (payload === undefined) return undefined;
  let claims: unknown;
  try {
    claims = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
  if (!isObject(claims) || typeof claims["exp"] !== "number") return undefined;
  const from = claims["iat"] ?? claims["nbf"];
  const untilMs = claims["exp"] * 1000;
  return { fromMs: typeof from === "number" ? from * 1000 : untilMs, untilMs };
}

export function readCertificateLife(pem: string): Life {
  const { validFromDate, validToDate } = new X509Certificate(pem);
  return { fromMs: validFromDate.getTime(), untilMs: validToDate.getTime() };
}
