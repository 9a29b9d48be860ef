import type { JWTPayload, JWTVerifyGetKey } from "jose";
import { isObject } from "@fairlead/base/json.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { UserInfo } from "#values/object.ts";
import { forApiServer, type TokenContext, type TokenIdentity, type TokenSource } from "./token-source.ts";

/** Identity tokens of an OpenID Connect provider. The names are those of the real server's flags, `--oidc-…`. */
export interface OidcOptions {
  /** https://… as the claim `iss` has it. */
  readonly issuerUrl: string;
  /** The claim `aud` must hold it. */
  readonly clientId: string;
  /** Default: sub. */
  readonly usernameClaim?: string;
  /** Default: the issuer and "#", nothing for the claim `email`. "-" is nothing. */
  readonly usernamePrefix?: string;
  /** Default: tokens give no groups. */
  readonly groupsClaim?: string;
  readonly groupsPrefix?: string;
  /** Claims that must have these values. */
  readonly requiredClaims?: Readonly<Record<string, string>>;
  /** Default: RS256. */
  readonly signingAlgorithms?: readonly string[];
  /** PEM of the authority of the issuer's certificate. Default: those that Node trusts. */
  readonly ca?: string;
}

/** After a failure the issuer is left alone for this long. Unit: milliseconds. */
const RETRY_AFTER_MS = 10_000;
/** Unit: milliseconds. */
const FETCH_TIMEOUT_MS = 10_000;
const ALGORITHMS = new Set(["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"]);

/** Checks tokens with the keys that the issuer publishes; these are fetched when the first token comes. */
export class OidcTokens implements TokenSource {
  readonly #options: OidcOptions;
  readonly #apiAudiences: readonly string[];
  readonly #log: Logger;
  #keys: Promise<JWTVerifyGetKey> | undefined;
  #notBeforeMs = 0;

  /** @throws {FleetError} `OPTION_INVALID` for options that would accept no token, or every token. */
  constructor(options: OidcOptions, apiAudiences: readonly string[], log: Logger) {
    checkOptions(options);
    this.#options = options;
    this.#apiAudiences = apiAudiences;
    this.#log = log;
  }

  authenticate(
    token: string,
    audiences: readonly string[],
    context: TokenContext,
  ): Promise<TokenIdentity | undefined> | undefined {
    // Looked at before anything is trusted: other issuers' tokens cost no request.
    if (issuerOf(token) !== this.#options.issuerUrl) return undefined;
    return this.#verify(token, context.nowMs).then((payload) => {
      const user = payload === undefined ? undefined : userOf(payload, this.#options);
      return user === undefined ? undefined : forApiServer(user, audiences, this.#apiAudiences);
    });
  }

  async #verify(token: string, nowMs: number): Promise<JWTPayload | undefined> {
    const { issuerUrl, clientId, signingAlgorithms = ["RS256"] } = this.#options;
    const { jwtVerify } = await import("jose");
    try {
      const keys = await this.#issuerKeys(nowMs);
      const { payload } = await jwtVerify(token, keys, {
        issuer: issuerUrl,
        audience: clientId,
        algorithms: [...signingAlgorithms],
        currentDate: new Date(nowMs),
        requiredClaims: ["exp"],
      });
      return payload;
    } catch (error) {
      // The token itself is never written down.
      this.#log.debug("rejected an identity token", { issuer: issuerUrl, error: messageOf(error) });
      return undefined;
    }
  }

  #issuerKeys(nowMs: number): Promise<JWTVerifyGetKey> {
    if (this.#keys !== undefined) return this.#keys;
    if (nowMs < this.#notBeforeMs) throw new FleetError("API_UNAVAILABLE", "the issuer failed a moment ago");
    const keys = fetchKeys(this.#options);
    this.#keys = keys;
    keys.catch((error: unknown) => {
      this.#keys = undefined;
      this.#notBeforeMs = nowMs + RETRY_AFTER_MS;
      const { issuerUrl: issuer } = this.#options;
      this.#log.warn("cannot reach the OpenID Connect issuer", { issuer, error: messageOf(error) });
    });
    return keys;
  }
}

function checkOptions({ issuerUrl, clientId, signingAlgorithms = [] }: OidcOptions): void {
  const url = URL.parse(issuerUrl);
  const refuse = (why: string): never => {
    throw new FleetError("OPTION_INVALID", why);
  };
  if (url?.protocol !== "https:" || url.search !== "" || url.hash !== "" || url.username !== "") {
    refuse(`the OIDC issuer must be an https URL without query, got ${issuerUrl}`);
  }
  if (clientId === "") refuse("the OIDC client id must not be empty");
  const unknown = signingAlgorithms.find((it) => !ALGORITHMS.has(it));
  if (unknown !== undefined) refuse(`the OIDC signing algorithm ${unknown} is not supported`);
}

async function fetchKeys({ issuerUrl, ca }: OidcOptions): Promise<JWTVerifyGetKey> {
  const [{ Agent, fetch }, { createRemoteJWKSet, customFetch }] = await Promise.all([
    import("undici"),
    import("jose"),
  ]);
  const dispatcher = new Agent({ connect: ca === undefined ? {} : { ca } });
  const get = (url: string, init: object): ReturnType<typeof fetch> =>
    // An issuer that redirects could lead to a place that speaks in its name.
    fetch(url, { ...init, redirect: "error", dispatcher });
  const answer = await get(`${issuerUrl.replace(/\/$/, "")}/.well-known/openid-configuration`, {
    signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
  });
  const document: unknown = answer.ok ? await answer.json() : undefined;
  const jwksUri = isObject(document) && document["issuer"] === issuerUrl ? document["jwks_uri"] : undefined;
  if (typeof jwksUri !== "string" || URL.parse(jwksUri)?.protocol !== "https:") {
    throw new FleetError("API_UNAVAILABLE", `${issuerUrl} has no OpenID configuration with jwks_uri`);
  }
  return createRemoteJWKSet(new URL(jwksUri), {
    timeoutDuration: FETCH_TIMEOUT_MS,
    [customFetch]: async (url: string, init: RequestInit) => {
      const keys = await get(url, { signal: init.signal });
      return new Response(await keys.text(), { status: keys.status });
    },
  });
}

function issuerOf(token: string): string | undefined {
  const [, body, signature] = token.split(".", 3);
  if (body === undefined || signature === undefined) return undefined;
  try {
    const payload: unknown = JSON.parse(Buffer.from(body, "base64url").toString("utf8"));
    return isObject(payload) && typeof payload["iss"] === "string" ? payload["iss"] : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined when a claim that must be there is not, or not as it must be. */
function userOf(payload: JWTPayload, options: OidcOptions): UserInfo | undefined {
  const { usernameClaim = "sub", groupsClaim, groupsPrefix = "", requiredClaims = {} } = options;
  const name = payload[usernameClaim];
  if (typeof name !== "string" || name === "") return undefined;
  if (usernameClaim === "email" && (payload["email_verified"] ?? true) !== true) return undefined;
  if (Object.entries(requiredClaims).some(([key, value]) => payload[key] !== value)) return undefined;
  const groups = groupsClaim === undefined ? [] : stringsOf(payload[groupsClaim]);
  if (groups === undefined) return undefined;
  return { name: prefixOf(options) + name, groups: groups.map((it) => groupsPrefix + it) };
}

function prefixOf({ usernameClaim = "sub", usernamePrefix, issuerUrl }: OidcOptions): string {
  if (usernamePrefix === "-") return "";
  return usernamePrefix ?? (usernameClaim === "email" ? "" : `${issuerUrl}#`);
}

/** One text or a list of them; an absent claim is an empty list. */
function stringsOf(value: unknown): readonly string[] | undefined {
  if (value === undefined) return [];
  if (typeof value === "string") return [value];
  return Array.isArray(value) && value.every((it) => typeof it === "string") ? value : undefined;
}
