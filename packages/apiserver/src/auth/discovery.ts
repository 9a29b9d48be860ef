import type { ServiceAccountTokens } from "./tokens.ts";

/** How others check ServiceAccount tokens. Source: k8s.io/kubernetes, pkg/serviceaccount/openidmetadata.go. */

export const CONFIGURATION_PATH = "/.well-known/openid-configuration";
export const KEYS_PATH = "/openid/v1/jwks";
export const KEYS_TYPE = "application/jwk-set+json";

/** Undefined if the issuer is not an https URL, which OpenID Connect requires. */
export function issuerConfiguration(tokens: ServiceAccountTokens, keysUrl: string): object | undefined {
  const url = URL.parse(tokens.issuer);
  if (url?.protocol !== "https:" || url.search !== "" || url.hash !== "") return undefined;
  return {
    issuer: tokens.issuer,
    jwks_uri: keysUrl,
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [tokens.key.algorithm],
  };
}

export function issuerKeys(tokens: ServiceAccountTokens): object {
  const { kty, crv, x, y, n, e } = tokens.publicKey.export({ format: "jwk" });
  const { keyId: kid, algorithm: alg } = tokens.key;
  return { keys: [JSON.parse(JSON.stringify({ use: "sig", kty, kid, crv, alg, n, e, x, y })) as object] };
}
