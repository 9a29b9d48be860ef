import { TLSSocket } from "node:tls";
import { systemClock } from "@fairlead/base/clock.ts";
import type { UserInfo } from "#values/object.ts";
import { unauthorized } from "#status.ts";
import {
  firstIdentity,
  type TokenContext,
  type TokenIdentity,
  type TokenSource,
  tolerant,
} from "./token-source.ts";
import type { ServiceAccountTokens } from "./tokens.ts";
import { ANONYMOUS_USER, AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP } from "#values/authorizer.ts";

/** The part of an `http.IncomingMessage` that says who sends it. */
export interface AuthenticRequest {
  readonly socket: object;
  readonly headersDistinct: NodeJS.Dict<string[]>;
}

export interface AuthenticatorOptions {
  readonly serviceAccountTokens: ServiceAccountTokens;
  /** Further kinds of bearer tokens. */
  readonly tokenSources?: readonly TokenSource[];
  /** Whether a request without credentials is one of `system:anonymous`, which may do what roles say. Default: true. */
  readonly anonymous?: boolean;
}

const WEBSOCKET_BEARER = "base64url.bearer.authorization.k8s.io.";
const ANONYMOUS: UserInfo = { name: ANONYMOUS_USER, groups: [UNAUTHENTICATED_GROUP] };

/** Identifies the sender of a request: by client certificate, else by bearer token, else as anonymous. */
export class Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #sources: readonly TokenSource[];
  /** A connection's certificate does not change; reading it costs more than the rest of the work here. */
  readonly #bySocket = new WeakMap<object, CertificateUser>();

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    this.#sources = [tolerant(options.serviceAccountTokens), ...(options.tokenSources ?? [])];
  }

  /**
   * Returns the user of a request, synchronously unless a token is seen for the first time.
   *
   * @throws {StatusError} 401 without valid credentials.
   */
  authenticate(request: AuthenticRequest, context: TokenContext): UserInfo | Promise<UserInfo> {
    const byCertificate = this.#userOfSocket(request.socket);
    if (typeof byCertificate === "object") return unlessOver(byCertificate);
    const token = bearerTokenOf(request.headersDistinct);
    if (token === undefined) {
      if (byCertificate === "invalid") throw unauthorized();
      return this.#anonymous();
    }
    const identity = this.authenticateToken(token, this.#options.serviceAccountTokens.audiences, context);
    return identity instanceof Promise ? identity.then((it) => it.user) : identity.user;
  }

  /**
   * Returns the user of a bearer token, for `TokenReview`.
   *
   * @throws {StatusError} 401 for a token that is not valid for any of `audiences`.
   */
  authenticateToken(
    token: string,
    audiences: readonly string[],
    context: TokenContext,
  ): TokenIdentity | Promise<TokenIdentity> {
    const found = firstIdentity(this.#sources, (it) => it.authenticate(token, audiences, context));
    return found instanceof Promise ? found.then(completed) : completed(found);
  }

  #userOfSocket(socket: object): CertificateUser {
    const known = this.#bySocket.get(socket);
    if (known !== undefined) return known;
    const user = socket instanceof TLSSocket ? userOfCertificate(socket) : "none";
    this.#bySocket.set(socket, user);
    return user;
  }

  #anonymous(): UserInfo {
    if (this.#options.anonymous ?? true) return ANONYMOUS;
    throw unauthorized();
  }
}

interface CertifiedUser {
  readonly user: UserInfo;
  readonly notAfterMs: number;
}

/** "none": no certificate, or one without a user name. "invalid": not signed for clients by the authority. */
type CertificateUser = CertifiedUser | "none" | "invalid";

/**
 * TLS looks at a certificate once, when the connection is opened, and by the machine's time, whatever clock the server has.
 *
 * @throws {StatusError} 401 when the certificate has ended since.
 */
function unlessOver({ user, notAfterMs }: CertifiedUser): UserInfo {
  if (systemClock.now() > notAfterMs) throw unauthorized();
  return user;
}

/** Common name and organizations of a client certificate that the TLS layer checked against the authority. */
function userOfCertificate(socket: TLSSocket): CertificateUser {
  const certificate = socket.getPeerCertificate();
  // Without a certificate Node gives an empty object.
  if (!("subject" in certificate)) return "none";
  if (!socket.authorized) return "invalid";
  // A subject may have several of each, and then Node gives a list in spite of the declared type.
  const { CN, O } = certificate.subject as { CN?: string | string[]; O?: string | string[] };
  const name = [CN ?? []].flat().at(-1);
  if (name === undefined || name === "") return "none";
  const fingerprint = certificate.fingerprint256.replaceAll(":", "").toLowerCase();
  const user = authenticated({
    name,
    groups: [O ?? []].flat(),
    extra: { "authentication.kubernetes.io/credential-id": [`X509SHA256=${fingerprint}`] },
  });
  return { user, notAfterMs: Date.parse(certificate.valid_to) };
}

function completed(found: TokenIdentity | undefined): TokenIdentity {
  if (found === undefined) throw unauthorized();
  return { ...found, user: authenticated(found.user) };
}

function authenticated(user: UserInfo): UserInfo {
  if (user.groups.includes(AUTHENTICATED_GROUP)) return user;
  return { ...user, groups: [...user.groups, AUTHENTICATED_GROUP] };
}

/** From `Authorization: Bearer`, or, for browsers that cannot set it on WebSockets, from a subprotocol. */
export function bearerTokenOf(headers: NodeJS.Dict<string[]>): string | undefined {
  const [scheme, token] = (headers["authorization"]?.[0] ?? "").trim().split(/\s+/, 2);
  if (scheme?.toLowerCase() === "bearer" && token !== undefined && token !== "") return token;
  const protocols = (headers["sec-websocket-protocol"] ?? []).flatMap((it) => it.split(","));
  const carrier = protocols.map((it) => it.trim()).find((it) => it.startsWith(WEBSOCKET_BEARER));
  if (carrier === undefined) return undefined;
  return Buffer.from(carrier.slice(WEBSOCKET_BEARER.length), "base64url").toString("utf8");
}
