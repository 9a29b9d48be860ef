import { defined } from "@fairlead/base/defined.ts";
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import type { JWTPayload } from "jose";
import { isObject } from "@fairlead/base/json.ts";
import type { ApiObject, ObjectReader, UserInfo } from "#values/object.ts";
import { unauthorized } from "#status.ts";
import {
  isHeldBySecret,
  keyIdOf,
  parseSecretTokenClaims,
  SECRET_ISSUER,
  type SigningKey,
} from "#builtin/config/secret-tokens.ts";
import type { TokenContext, TokenIdentity } from "./token-source.ts";
import {
  parseServiceAccountUser,
  serviceAccountGroups,
  serviceAccountUser,
} from "#values/service-account.ts";

/** The object that a token is bound to: the token becomes invalid when it is deleted. */
export interface BoundObject {
  readonly name: string;
  readonly uid: string;
}

/** The claim `kubernetes.io` of a ServiceAccount token (KEP-1205, KEP-4193). */
interface PrivateClaims {
  readonly namespace: string;
  readonly serviceaccount: BoundObject;
  readonly pod?: BoundObject;
  readonly secret?: BoundObject;
  readonly node?: BoundObject;
}

export interface TokenRequest {
  readonly namespace: string;
  readonly serviceAccount: BoundObject;
  readonly audiences: readonly string[];
  /** Unit: seconds. */
  readonly expirationSeconds: number;
  readonly pod?: BoundObject;
  readonly secret?: BoundObject;
  readonly node?: BoundObject;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
  /** A fresh UUID. */
  readonly id: string;
}

export interface ServiceAccountTokenOptions {
  /** PEM, P-256 (ES256) or RSA (RS256). */
  readonly privateKey: string;
  /** Default: https://kubernetes.default.svc.cluster.local. */
  readonly issuer?: string;
  /** Audiences that the API server takes as meant for itself. Default: the issuer. */
  readonly audiences?: readonly string[];
}

interface Verified {
  readonly claims: PrivateClaims;
  readonly id: string | undefined;
  readonly audiences: readonly string[];
  readonly notBeforeMs: number;
  readonly expiresMs: number;
  /** For tokens out of Secrets. */
  readonly isHeld?: (reader: ObjectReader) => boolean;
}

/** How many checked tokens are remembered: a signature costs 100 times what a look-up costs. */
const REMEMBERED = 4096;
const DEFAULT_ISSUER = "https://kubernetes.default.svc.cluster.local";
const CREDENTIAL_ID = "authentication.kubernetes.io/credential-id";

/** Signs and checks ServiceAccount tokens. */
export class ServiceAccountTokens {
  readonly audiences: readonly string[];
  /** With which tokens are signed. */
  readonly key: SigningKey;
  readonly issuer: string;
  readonly publicKey: KeyObject;
  readonly #verified = new Map<string, Verified>();

  constructor(options: ServiceAccountTokenOptions) {
    this.issuer = options.issuer ?? DEFAULT_ISSUER;
    this.audiences = options.audiences ?? [this.issuer];
    const privateKey = createPrivateKey(options.privateKey);
    this.publicKey = createPublicKey(privateKey);
    const algorithm = privateKey.asymmetricKeyType === "rsa" ? "RS256" : "ES256";
    this.key = { privateKey, algorithm, keyId: keyIdOf(this.publicKey) };
  }

  async sign(request: TokenRequest): Promise<string> {
    const { SignJWT } = await import("jose");
    const nowSeconds = Math.floor(request.nowMs / 1000);
    const { namespace, serviceAccount, pod, secret, node } = request;
    const claims: PrivateClaims = {
      namespace,
      ...defined({ node, pod, secret }),
      serviceaccount: serviceAccount,
    };
    return new SignJWT({ "kubernetes.io": claims })
      .setProtectedHeader({ alg: this.key.algorithm, kid: this.key.keyId })
      .setIssuer(this.issuer)
      .setSubject(serviceAccountUser(namespace, serviceAccount.name))
      .setAudience([...request.audiences])
      .setIssuedAt(nowSeconds)
      .setNotBefore(nowSeconds)
      .setExpirationTime(nowSeconds + request.expirationSeconds)
      .setJti(request.id)
      .sign(this.key.privateKey);
  }

  /**
   * Returns the user of a token, synchronously if the signature was verified before; expiry and the objects that the
   * token is bound to are checked each time.
   *
   * @throws {StatusError} 401 if this server did not issue it, if it is expired, or if it is for other audiences.
   */
  authenticate(
    token: string,
    audiences: readonly string[],
    context: TokenContext,
  ): TokenIdentity | Promise<TokenIdentity> {
    const known = this.#verified.get(token);
    if (known !== undefined) return identify(known, audiences, context);
    return this.#verify(token).then((it) => identify(it, audiences, context));
  }

  async #verify(token: string): Promise<Verified> {
    const { jwtVerify } = await import("jose");
    let payload: JWTPayload;
    try {
      // Times are checked with the server's own clock, each time that the token is used.
      const currentDate = new Date(0);
      ({ payload } = await jwtVerify(token, this.publicKey, {
        algorithms: [this.key.algorithm],
        issuer: [this.issuer, SECRET_ISSUER],
        currentDate,
        clockTolerance: Number.MAX_SAFE_INTEGER,
      }));
    } catch {
      throw unauthorized();
    }
    const verified = payload.iss === SECRET_ISSUER ? this.#fromSecret(token, payload) : parseClaims(payload);
    const [oldest] = this.#verified.keys();
    if (this.#verified.size >= REMEMBERED && oldest !== undefined) this.#verified.delete(oldest);
    this.#verified.set(token, verified);
    return verified;
  }

  /** Such a token has no audience of its own, and no end but that of its Secret. */
  #fromSecret(token: string, payload: JWTPayload): Verified {
    const claims = parseSecretTokenClaims(payload);
    if (claims === undefined) throw unauthorized();
    return {
      claims,
      id: undefined,
      audiences: this.audiences,
      notBeforeMs: 0,
      expiresMs: Infinity,
      isHeld: (reader) => isHeldBySecret(token, claims, reader),
    };
  }
}

function parseClaims(payload: JWTPayload): Verified {
  const claims = parsePrivateClaims(payload["kubernetes.io"]);
  const subject = parseServiceAccountUser(payload.sub ?? "");
  const matches =
    claims !== undefined &&
    subject?.namespace === claims.namespace &&
    subject.name === claims.serviceaccount.name;
  if (!matches || payload.exp === undefined) throw unauthorized();
  const { aud = [] } = payload;
  return {
    claims,
    id: payload.jti,
    audiences: typeof aud === "string" ? [aud] : aud,
    notBeforeMs: (payload.nbf ?? 0) * 1000,
    expiresMs: payload.exp * 1000,
  };
}

function parsePrivateClaims(value: unknown): PrivateClaims | undefined {
  if (!isObject(value)) return undefined;
  const { namespace } = value;
  const serviceaccount = parseBound(value["serviceaccount"]);
  if (typeof namespace !== "string" || serviceaccount === undefined) return undefined;
  const pod = parseBound(value["pod"]);
  const secret = parseBound(value["secret"]);
  const node = parseBound(value["node"]);
  return {
    namespace,
    serviceaccount,
    ...defined({ pod, secret, node }),
  };
}

function parseBound(value: unknown): BoundObject | undefined {
  if (!isObject(value)) return undefined;
  const { name, uid } = value;
  return typeof name === "string" && typeof uid === "string" ? { name, uid } : undefined;
}

function identify(
  token: Verified,
  audiences: readonly string[],
  { reader, nowMs }: TokenContext,
): TokenIdentity {
  const shared = audiences.filter((it) => token.audiences.includes(it));
  const inTime = nowMs >= token.notBeforeMs && nowMs < token.expiresMs;
  const isAlive = isBoundToLiving(token.claims, reader, nowMs) && (token.isHeld?.(reader) ?? true);
  if (shared.length === 0 || !inTime || !isAlive) throw unauthorized();
  return { user: userOf(token), audiences: shared };
}

/** A deleted object takes its tokens with it, after a grace of 60 s as upstream's, for what is being shut down. */
const DELETION_GRACE_MS = 60_000;

function isBoundToLiving(claims: PrivateClaims, reader: ObjectReader, nowMs: number): boolean {
  const { namespace, serviceaccount, pod, secret, node } = claims;
  const isLiving = (plural: string, of: BoundObject | undefined, within: string | undefined): boolean =>
    of === undefined || isSame(reader.get("", plural, within, of.name), of, nowMs);
  return (
    isLiving("serviceaccounts", serviceaccount, namespace) &&
    isLiving("pods", pod, namespace) &&
    isLiving("secrets", secret, namespace) &&
    // With a pod, the node says only where the pod ran when the token was made.
    (pod !== undefined || isLiving("nodes", node, undefined))
  );
}

function isSame(found: ApiObject | undefined, wanted: BoundObject, nowMs: number): boolean {
  if (found?.metadata.uid !== wanted.uid) return false;
  const { deletionTimestamp } = found.metadata;
  return deletionTimestamp === undefined || nowMs < Date.parse(deletionTimestamp) + DELETION_GRACE_MS;
}

function userOf({ claims, id }: Verified): UserInfo {
  const { namespace, serviceaccount, pod, node } = claims;
  const extra: Record<string, readonly string[]> = {};
  if (id !== undefined) extra[CREDENTIAL_ID] = [`JTI=${id}`];
  for (const [kind, bound] of [["pod", pod] as const, ["node", node] as const]) {
    if (bound === undefined) continue;
    extra[`authentication.kubernetes.io/${kind}-name`] = [bound.name];
    extra[`authentication.kubernetes.io/${kind}-uid`] = [bound.uid];
  }
  return {
    name: serviceAccountUser(namespace, serviceaccount.name),
    uid: serviceaccount.uid,
    groups: serviceAccountGroups(namespace),
    extra,
  };
}
