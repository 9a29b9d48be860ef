import { defined } from "@fairlead/base/defined.ts";
import { AuditFile } from "#audit/file.ts";
import type { AuditOptions } from "#audit/log.ts";
import { parseAuditPolicy } from "#audit/policy.ts";
import type { OidcOptions } from "#auth/oidc.ts";
import type { AuthenticationOptions } from "#auth/options.ts";
import { parseTokenFile } from "#auth/static-tokens.ts";
import { parseYaml } from "#schema/yaml.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { readFlagFile } from "./parse.ts";

/** Flags of identity and audit, under the names that the real server has for them. */

export interface AccessFlags {
  readonly tokenAuthFile?: string | undefined;
  readonly enableBootstrapTokenAuth: boolean;
  readonly anonymousAuth: string;
  readonly serviceAccountIssuer?: string | undefined;
  readonly serviceAccountJwksUri?: string | undefined;
  readonly apiAudiences?: readonly string[] | undefined;
  readonly oidcIssuerUrl?: string | undefined;
  readonly oidcClientId?: string | undefined;
  readonly oidcUsernameClaim?: string | undefined;
  readonly oidcUsernamePrefix?: string | undefined;
  readonly oidcGroupsClaim?: string | undefined;
  readonly oidcGroupsPrefix?: string | undefined;
  readonly oidcRequiredClaim: readonly string[];
  readonly oidcSigningAlgs?: readonly string[] | undefined;
  readonly oidcCaFile?: string | undefined;
}

/** @throws {FleetError} `OPTION_INVALID` for files that cannot be read, and flags that do not fit together. */
export function authenticationOf(flags: AccessFlags): AuthenticationOptions {
  const tokens = readFlagFile("--token-auth-file", flags.tokenAuthFile);
  const oidc = oidcOf(flags);
  return {
    bootstrapTokens: flags.enableBootstrapTokenAuth,
    anonymous: flags.anonymousAuth === "true",
    ...(tokens === undefined ? {} : { staticTokens: parseTokenFile(tokens) }),
    ...defined({ oidc }),
    ...given("serviceAccountIssuer", flags.serviceAccountIssuer),
    ...given("serviceAccountKeysUrl", flags.serviceAccountJwksUri),
    ...given("apiAudiences", flags.apiAudiences),
  };
}

function oidcOf(flags: AccessFlags): OidcOptions | undefined {
  const { oidcIssuerUrl: issuerUrl, oidcClientId: clientId } = flags;
  if (issuerUrl === undefined && clientId === undefined) return undefined;
  if (issuerUrl === undefined || clientId === undefined) {
    throw new FleetError("OPTION_INVALID", "--oidc-issuer-url and --oidc-client-id must be set together");
  }
  return {
    issuerUrl,
    clientId,
    requiredClaims: Object.fromEntries(flags.oidcRequiredClaim.map(parseClaim)),
    ...given("usernameClaim", flags.oidcUsernameClaim),
    ...given("usernamePrefix", flags.oidcUsernamePrefix),
    ...given("groupsClaim", flags.oidcGroupsClaim),
    ...given("groupsPrefix", flags.oidcGroupsPrefix),
    ...given("signingAlgorithms", flags.oidcSigningAlgs),
    ...given("ca", readFlagFile("--oidc-ca-file", flags.oidcCaFile)),
  };
}

function parseClaim(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new FleetError("OPTION_INVALID", `--oidc-required-claim must be key=value, got ${text}`);
}

function given<K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [key]: value } as Record<K, V>);
}

export interface AuditFlags {
  readonly auditLogPath?: string | undefined;
  readonly auditPolicyFile?: string | undefined;
  readonly auditLogMaxsize: number;
  readonly auditLogMaxbackup: number;
}

const MEGABYTE = 1024 * 1024;

/** Undefined where nothing is to be written. */
export function auditTo(
  flags: AuditFlags,
  log: Logger,
): (Disposable & { readonly options: AuditOptions }) | undefined {
  const { auditLogPath: path, auditPolicyFile: policyFile } = flags;
  const policy = readFlagFile("--audit-policy-file", policyFile);
  if (path === undefined) {
    if (policy === undefined) return undefined;
    throw new FleetError("OPTION_INVALID", "--audit-policy-file needs --audit-log-path");
  }
  const file = path === "-" ? undefined : openFile(path, flags, log);
  const write = file === undefined ? (line: string) => void process.stdout.write(`${line}\n`) : file.write;
  const options = {
    write,
    ...(policy === undefined ? {} : { policy: parseAuditPolicy(parseYaml(policy).value) }),
  };
  return { options, [Symbol.dispose]: () => file?.[Symbol.dispose]() };
}

function openFile(path: string, flags: AuditFlags, log: Logger): AuditFile {
  try {
    const limits = { maxBytes: flags.auditLogMaxsize * MEGABYTE, maxBackups: flags.auditLogMaxbackup };
    return new AuditFile(path, limits, { clock: systemClock, log });
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--audit-log-path: cannot write ${path}`, {
      cause,
    });
  }
}
