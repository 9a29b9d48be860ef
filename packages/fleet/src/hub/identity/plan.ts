import { createPublicKey, type KeyObject } from "node:crypto";
import type { CertificateSigningRequest } from "@fairlead/kube/api/certificates/v1/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ServiceAccount } from "@fairlead/kube/api/core/v1/types.ts";
import {
  bootstrapUser,
  CERTIFICATE_SECONDS,
  LIFE_ANNOTATION,
  isMemberUserLike,
  MEMBERS_GROUP,
  parseMemberUser,
  USED_BY_ANNOTATION,
} from "#api/fairlead.dev/identity.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { type CertificateRequest, parseCertificateRequest } from "@fairlead/base/pki/request.ts";

/** Which requests for certificates the hub approves: a member's own, for exactly its present identity. */

export type Verdict =
  /** The request concerns no member. */
  | { readonly kind: "ignore" }
  | { readonly kind: "deny"; readonly reason: string; readonly message: string }
  /** `account`: whose token it was asked with, which is good for this request alone. */
  | { readonly kind: "approve"; readonly message: string; readonly account: ServiceAccount | undefined };

/** Of the member that a request is for. */
export interface Known {
  readonly member: MemberCluster | undefined;
  /** The account with whose token it joins. */
  readonly account: ServiceAccount | undefined;
}

/** The member that a certificate is asked for; undefined where it is for no member. */
export function memberAskedFor({ spec }: CertificateSigningRequest): string | undefined {
  return parseMemberUser(readRequest(spec)?.commonName ?? "")?.cluster;
}

type Spec = CertificateSigningRequest["spec"];

/** The reason why one rule denies a request. Undefined if it does not. */
type Objection = { readonly reason: string; readonly message: string } | undefined;

export function planVerdict(asked: CertificateSigningRequest, known: Known): Verdict {
  const { spec } = asked;
  const request = readRequest(spec);
  if (!isOurs(spec, request)) return { kind: "ignore" };
  if (request === undefined)
    return {
      kind: "deny",
      reason: "RequestUnreadable",
      message: "spec.request is not a PKCS #10 certificate request",
    };
  const objection =
    checkSubject(request, known) ??
    checkUse(spec) ??
    checkKey(request) ??
    checkRequester(asked, request, known);
  if (objection !== undefined) return { kind: "deny", ...objection };
  const { commonName } = request;
  const cluster = parseMemberUser(commonName)?.cluster ?? "";
  const account = spec.username === commonName ? undefined : known.account;
  const how = account === undefined ? "renews its certificate" : "joins with its token";
  return { kind: "approve", message: `member ${cluster} ${how}`, account };
}

function readRequest(spec: Spec): CertificateRequest | undefined {
  try {
    return parseCertificateRequest(Buffer.from(spec.request, "base64").toString("latin1"));
  } catch {
    return undefined;
  }
}

/** Returns true if the requester, or the subject of the request, is a member or is joining. */
function isOurs({ username = "" }: Spec, request: CertificateRequest | undefined): boolean {
  return (
    isMemberUserLike(username) ||
    username.startsWith(bootstrapUser("")) ||
    (request !== undefined &&
      (isMemberUserLike(request.commonName) || request.organizations.includes(MEMBERS_GROUP)))
  );
}

function checkSubject(request: CertificateRequest, known: Known): Objection {
  const { commonName, organizations, subject } = request;
  const deny = (message: string): Objection => ({ reason: "SubjectNotAllowed", message });
  const identity = parseMemberUser(commonName);
  if (identity === undefined)
    return deny(`common name ${JSON.stringify(commonName)} is not the identity of a member`);
  if (!sameJson(organizations, [MEMBERS_GROUP]) || subject.length !== 2)
    return deny(`the subject must be the common name and the organization ${MEMBERS_GROUP}, nothing else`);
  const { dnsNames, ipAddresses, emails, uris, hasOtherNames } = request;
  if (hasOtherNames || [dnsNames, ipAddresses, emails, uris].some((it) => it.length > 0))
    return deny("a member's certificate has no alternative names");
  const { member } = known;
  if (member?.metadata.name !== identity.cluster || isDeleting(member))
    return { reason: "MemberUnknown", message: `the fleet has no member ${identity.cluster}` };
  const current = member.spec.identity;
  if (current.kind === "User" && current.name === commonName) return undefined;
  return {
    reason: "IdentityRevoked",
    message: `member ${identity.cluster} is ${current.kind} ${current.name} now, not ${commonName}`,
  };
}

const USAGES: ReadonlySet<string> = new Set(["digital signature", "key encipherment", "client auth"]);

function checkUse({ usages = [], expirationSeconds }: Spec): Objection {
  const deny = (message: string): Objection => ({ reason: "UseNotAllowed", message });
  const other = usages.find((it) => !USAGES.has(it));
  if (other !== undefined) return deny(`the usage ${JSON.stringify(other)} is not for a client`);
  if (!usages.includes("client auth")) return deny('the usage "client auth" is missing');
  if (expirationSeconds !== undefined && expirationSeconds <= CERTIFICATE_SECONDS) return undefined;
  return deny(`expirationSeconds must be set, to ${CERTIFICATE_SECONDS} at most`);
}

const CURVES: ReadonlySet<string | undefined> = new Set(["prime256v1", "secp384r1", "secp521r1"]);
const MIN_RSA_BITS = 2048;

function checkKey({ publicKey }: CertificateRequest): Objection {
  const key = readKey(publicKey);
  if (key === undefined) return { reason: "KeyNotAllowed", message: "unsupported key type" };
  const { namedCurve, modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  const isGood =
    key.asymmetricKeyType === "ed25519" ||
    (key.asymmetricKeyType === "ec" && CURVES.has(namedCurve)) ||
    (key.asymmetricKeyType === "rsa" && modulusLength >= MIN_RSA_BITS);
  if (isGood) return undefined;
  const found = `${key.asymmetricKeyType ?? "unknown"} ${namedCurve ?? modulusLength}`;
  return {
    reason: "KeyNotAllowed",
    message: `unsupported key ${found}: must be EC P-256 to P-521, Ed25519, or RSA of at least ${MIN_RSA_BITS} bits`,
  };
}

function readKey(publicKey: CertificateRequest["publicKey"]): KeyObject | undefined {
  try {
    return createPublicKey({ key: publicKey, format: "der", type: "spki" });
  } catch {
    return undefined;
  }
}

/** Reads the requester from spec.username, which the API server sets, not from the request itself. */
function checkRequester(
  { metadata, spec }: CertificateSigningRequest,
  { commonName }: CertificateRequest,
  known: Known,
): Objection {
  if (spec.username === commonName) return undefined;
  const cluster = parseMemberUser(commonName)?.cluster ?? "";
  if (spec.username !== bootstrapUser(cluster))
    return {
      reason: "RequesterNotAllowed",
      message: `requester ${spec.username} is neither ${commonName} nor the join ServiceAccount of member ${cluster}`,
    };
  const { account } = known;
  if (account?.metadata.uid === undefined || account.metadata.uid !== spec.uid)
    return {
      reason: "TokenUnknown",
      message: `the join token of member ${cluster} is no longer valid; run "fairlead join ${cluster}" to create another`,
    };
  const usedBy = account.metadata.annotations?.[USED_BY_ANNOTATION];
  if (usedBy === undefined || usedBy === metadata.uid) return undefined;
  return {
    reason: "TokenUsed",
    message: `the join token of member ${cluster} was already used, and is valid for one certificate only; run "fairlead join ${cluster}" to create another`,
  };
}

/** Returns true if the request is approved, denied or failed. */
export function isDecided({ status }: CertificateSigningRequest): boolean {
  return status?.conditions?.some((it) => it.type === "Approved" || it.type === "Denied") === true;
}

/**
 * Returns when a finished request of a member is deleted. kube-controller-manager deletes requests by the same rule, but
 * a hub may run without one.
 *
 * @returns Unit: milliseconds since the Unix epoch. Undefined if the request concerns no member, or is not finished.
 */
export function requestEndsMs(
  { metadata, spec, status }: CertificateSigningRequest,
  keptMs: number,
): number | undefined {
  const decisions = (status?.conditions ?? []).filter((it) => it.status === "True");
  const isFinished = status?.certificate !== undefined || decisions.some((it) => it.type !== "Approved");
  if (!isFinished || !isOurs(spec, readRequest(spec))) return undefined;
  const times = [metadata.creationTimestamp, ...decisions.map((it) => it.lastUpdateTime)]
    .map((it) => Date.parse(it ?? ""))
    .filter((it) => !Number.isNaN(it));
  return Math.max(0, ...times) + keptMs;
}

/**
 * Until when an account to join with may stay: while the member may still fetch its certificate with it, and no longer
 * than any token of it lives.
 *
 * @param issuedAtMs - When the request that used it was answered; undefined: it was not, or not seen.
 * @returns Unit: milliseconds since the Unix epoch.
 */
export function accountEndsMs(
  account: ServiceAccount,
  issuedAtMs: number | undefined,
  limits: { readonly fetchMs: number; readonly lifeMs: number },
): number {
  const madeMs = Date.parse(account.metadata.creationTimestamp ?? "");
  const seconds = Number(account.metadata.annotations?.[LIFE_ANNOTATION] ?? "");
  const lifeMs = Number.isSafeInteger(seconds) && seconds > 0 ? seconds * 1000 : limits.lifeMs;
  const lastMs = (Number.isNaN(madeMs) ? 0 : madeMs) + lifeMs;
  return issuedAtMs === undefined ? lastMs : Math.min(lastMs, issuedAtMs + limits.fetchMs);
}
