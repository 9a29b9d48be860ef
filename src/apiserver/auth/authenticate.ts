import { TLSSocket } from "node:tls";
import type { ObjectReader, UserInfo } from "../registry/types.ts";
import { unauthorized } from "../status.ts";
import { impersonate } from "./impersonate.ts";
import type { ServiceAccountTokens, TokenIdentity } from "./tokens.ts";
import { ANONYMOUS_USER, AUTHENTICATED_GROUP, type Authorizer, UNAUTHENTICATED_GROUP } from "./types.ts";

/** The part of an `http.IncomingMessage` that says who sends it. */
export interface AuthenticRequest {
  readonly socket: object;
  readonly headersDistinct: NodeJS.Dict<string[]>;
  /** Path and query. */
  readonly url?: string | undefined;
}

export interface AuthenticationContext {
  readonly reader: ObjectReader;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface AuthenticatorOptions {
  readonly authorizer: Authorizer;
  readonly serviceAccountTokens: ServiceAccountTokens;
  /** Bearer tokens that stand for a user as they are. */
  readonly staticTokens?: ReadonlyMap<string, UserInfo>;
  /** Which paths may be read without credentials. Default: "health" (and /version). */
  readonly anonymous?: "all" | "health" | "none";
}

const OPEN_PATHS = new Set(["healthz", "livez", "readyz", "version"]);
const WEBSOCKET_BEARER = "base64url.bearer.authorization.k8s.io.";
const ANONYMOUS: UserInfo = { name: ANONYMOUS_USER, groups: [UNAUTHENTICATED_GROUP] };

/** Finds out who sends a request: by client certificate, else by bearer token, else nobody. */
export class Authenticator {
  readonly #options: AuthenticatorOptions;
  /** A connection's certificate does not change; reading it costs more than the rest of the work here. */
  readonly #bySocket = new WeakMap<object, UserInfo | "none">();

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
  }

  /**
   * Answers at once, unless a ServiceAccount token is seen for the first time. Impersonation headers are obeyed.
   *
   * @throws {StatusError} 401 without valid credentials, 403 for an impersonation that is not allowed.
   */
  authenticate(request: AuthenticRequest, context: AuthenticationContext): UserInfo | Promise<UserInfo> {
    const found = this.#identify(request, context);
    const { authorizer } = this.#options;
    if (found instanceof Promise) {
      return found.then((user) => impersonate(user, request.headersDistinct, authorizer));
    }
    return impersonate(found, request.headersDistinct, authorizer);
  }

  /**
   * Who a bearer token stands for, for `TokenReview`.
   *
   * @throws {StatusError} 401 for a token that is not valid for any of `audiences`.
   */
  authenticateToken(
    token: string,
    audiences: readonly string[],
    context: AuthenticationContext,
  ): TokenIdentity | Promise<TokenIdentity> {
    const known = this.#options.staticTokens?.get(token);
    if (known !== undefined) return { user: authenticated(known), audiences };
    const identity = this.#options.serviceAccountTokens.authenticate(token, audiences, context);
    const complete = (it: TokenIdentity): TokenIdentity => ({ ...it, user: authenticated(it.user) });
    return identity instanceof Promise ? identity.then(complete) : complete(identity);
  }

  #identify(request: AuthenticRequest, context: AuthenticationContext): UserInfo | Promise<UserInfo> {
    const byCertificate = this.#userOfSocket(request.socket);
    if (byCertificate !== undefined) return byCertificate;
    const token = bearerTokenOf(request.headersDistinct);
    if (token === undefined) return this.#anonymous(request.url ?? "/");
    const identity = this.authenticateToken(token, this.#options.serviceAccountTokens.audiences, context);
    return identity instanceof Promise ? identity.then((it) => it.user) : identity.user;
  }

  #userOfSocket(socket: object): UserInfo | undefined {
    const known = this.#bySocket.get(socket);
    if (known !== undefined) return known === "none" ? undefined : known;
    const user = socket instanceof TLSSocket ? userOfCertificate(socket) : undefined;
    this.#bySocket.set(socket, user ?? "none");
    return user;
  }

  #anonymous(url: string): UserInfo {
    const mode = this.#options.anonymous ?? "health";
    const [, first = ""] = url.split(/[/?]/, 2);
    if (mode === "all" || (mode === "health" && OPEN_PATHS.has(first))) return ANONYMOUS;
    throw unauthorized();
  }
}

/** Common name and organizations of a client certificate that the TLS layer checked against the authority. */
function userOfCertificate(socket: TLSSocket): UserInfo | undefined {
  if (!socket.authorized) return undefined;
  const certificate = socket.getPeerCertificate();
  // Without a certificate Node gives an empty object.
  if (!("subject" in certificate)) return undefined;
  // A subject may have several of each, and then Node gives a list in spite of the declared type.
  const { CN, O } = certificate.subject as { CN?: string | string[]; O?: string | string[] };
  const name = [CN ?? []].flat().at(-1);
  if (name === undefined || name === "") return undefined;
  const fingerprint = certificate.fingerprint256.replaceAll(":", "").toLowerCase();
  return authenticated({
    name,
    groups: [O ?? []].flat(),
    extra: { "authentication.kubernetes.io/credential-id": [`X509SHA256=${fingerprint}`] },
  });
}

function authenticated(user: UserInfo): UserInfo {
  if (user.groups.includes(AUTHENTICATED_GROUP)) return user;
  return { ...user, groups: [...user.groups, AUTHENTICATED_GROUP] };
}

/** From `Authorization: Bearer`, or, for browsers that cannot set it on WebSockets, from a subprotocol. */
function bearerTokenOf(headers: NodeJS.Dict<string[]>): string | undefined {
  const [scheme, token] = (headers["authorization"]?.[0] ?? "").trim().split(/\s+/, 2);
  if (scheme?.toLowerCase() === "bearer" && token !== undefined && token !== "") return token;
  const protocols = (headers["sec-websocket-protocol"] ?? []).flatMap((it) => it.split(","));
  const carrier = protocols.map((it) => it.trim()).find((it) => it.startsWith(WEBSOCKET_BEARER));
  if (carrier === undefined) return undefined;
  return Buffer.from(carrier.slice(WEBSOCKET_BEARER.length), "base64url").toString("utf8");
}
