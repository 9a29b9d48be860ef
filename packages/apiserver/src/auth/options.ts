import type { Logger } from "@fairlead/base/log.ts";
import type { UserInfo } from "#values/object.ts";
import { bootstrapTokens } from "./bootstrap-tokens.ts";
import { OidcTokens, type OidcOptions } from "./oidc.ts";
import { staticTokens } from "./static-tokens.ts";
import type { TokenSource } from "./token-source.ts";

/** Authentication methods in addition to client certificates and ServiceAccount tokens. */
export interface AuthenticationOptions {
  /** Bearer tokens that stand for a user as they are. */
  readonly staticTokens?: ReadonlyMap<string, UserInfo>;
  /** Whether Secrets `bootstrap-token-<id>` let machines in. Default: false. */
  readonly bootstrapTokens?: boolean;
  readonly oidc?: OidcOptions;
  /** Whether requests without credentials are those of `system:anonymous`. Default: true. */
  readonly anonymous?: boolean;
  /** Issuer of ServiceAccount tokens. Default: https://kubernetes.default.svc.cluster.local. */
  readonly serviceAccountIssuer?: string;
  /** Where others find the keys of ServiceAccount tokens. Default: this server. */
  readonly serviceAccountKeysUrl?: string;
  /** Audiences of tokens that are meant for this server. Default: the issuer. */
  readonly apiAudiences?: readonly string[];
}

export function tokenSources(
  options: AuthenticationOptions,
  apiAudiences: readonly string[],
  log: Logger,
): readonly TokenSource[] {
  return [
    ...(options.staticTokens === undefined ? [] : [staticTokens(options.staticTokens, apiAudiences)]),
    ...(options.bootstrapTokens === true ? [bootstrapTokens(apiAudiences)] : []),
    ...(options.oidc === undefined ? [] : [new OidcTokens(options.oidc, apiAudiences, log)]),
  ];
}
