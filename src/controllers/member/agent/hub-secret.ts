import type { Secret } from "#api/core/v1/types.ts";
import { isClusterName } from "#api/fairlead.dev/model/names.ts";
import { isObject } from "#base/json.ts";

/** How this member reaches its hub, as `fairlead join` left it. */
export interface HubAccess {
  readonly server: string;
  /** PEM; undefined: the certificates of the system. */
  readonly ca: string | undefined;
  /** The member's name, which is its cluster id. */
  readonly cluster: string;
  readonly token: string;
}

export type ReadAccess =
  | { readonly kind: "access"; readonly access: HubAccess }
  | { readonly kind: "problem"; readonly problem: string };

/** Reads the Secret; says what is wrong with one that cannot be used. */
export function readHubSecret(secret: Secret): ReadAccess {
  const field = (name: string): string =>
    Buffer.from(secret.data?.[name] ?? "", "base64")
      .toString("utf8")
      .trim();
  const [server, ca, token, cluster] = [field("server"), field("ca.crt"), field("token"), field("cluster")];
  const problem = [
    URL.canParse(server) && server.startsWith("https://") ? undefined : "server is not an https URL",
    token === "" ? "token is missing" : undefined,
    isClusterName(cluster) ? undefined : "cluster is not the name of a member",
  ].find((it) => it !== undefined);
  if (problem !== undefined) return { kind: "problem", problem };
  return { kind: "access", access: { server, ca: ca === "" ? undefined : ca, cluster, token } };
}

/** Whether a session goes on with the new Secret: only the token may differ. */
export function isSameHub(a: HubAccess, b: HubAccess): boolean {
  return a.server === b.server && a.ca === b.ca && a.cluster === b.cluster;
}

/**
 * When a token was made and when it ends, by its own word (RFC 7519). Not verified: that is the hub's part.
 *
 * @returns Unit: milliseconds since the Unix epoch. Undefined for tokens that do not say, which do not end.
 */
export function readTokenLife(
  token: string,
): { readonly fromMs: number; readonly untilMs: number } | undefined {
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
