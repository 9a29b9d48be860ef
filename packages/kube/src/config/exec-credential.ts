import { defined } from "@fairlead/base/defined.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Credential, Credentials } from "./config.ts";

/**
 * Credential plugins: a program prints an `ExecCredential`. Source: client authentication API,
 * client.authentication.k8s.io/v1.
 */

export interface ExecPlugin {
  /** "client.authentication.k8s.io/v1" or "/v1beta1". */
  readonly apiVersion: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Said when the command is not there. */
  readonly installHint?: string;
  /** Passed to the plugin as `spec.cluster` when it asks for it. */
  readonly cluster?: Readonly<Record<string, unknown>>;
  /** Which user of the kubeconfig this is, for messages. */
  readonly field: string;
}

export type RunPlugin = (
  plugin: ExecPlugin,
  env: Readonly<Record<string, string>>,
  signal?: AbortSignal,
) => Promise<string>;

/** A credential is renewed this long before it expires. Unit: milliseconds. */
const RENEW_BEFORE_MS = 10_000;

export function execCredentials(plugin: ExecPlugin, clock: Clock, run: RunPlugin = runPlugin): Credentials {
  let cached: ParsedCredential | undefined;
  let running: Promise<ParsedCredential> | undefined;
  async function renew(): Promise<ParsedCredential> {
    const spec = { interactive: false, ...(plugin.cluster === undefined ? {} : { cluster: plugin.cluster }) };
    const info = JSON.stringify({ apiVersion: plugin.apiVersion, kind: "ExecCredential", spec });
    return parseExecCredential(await run(plugin, { ...plugin.env, KUBERNETES_EXEC_INFO: info }), plugin);
  }
  return {
    async current() {
      if (cached !== undefined && clock.now() < cached.expiresAtMs - RENEW_BEFORE_MS)
        return cached.credential;
      // Many calls may find the cache empty: one run of the plugin serves them all.
      running ??= renew().finally(() => {
        running = undefined;
      });
      cached = await running;
      return cached.credential;
    },
    expire() {
      cached = undefined;
    },
  };
}

interface ParsedCredential {
  readonly credential: Credential;
  /** Unit: milliseconds since the epoch; infinite when the plugin names no end. */
  readonly expiresAtMs: number;
}

/** @throws {FleetError} `KUBECONFIG_INVALID`, without the plugin's output: it may hold a secret. */
function parseExecCredential(text: string, plugin: ExecPlugin): ParsedCredential {
  const status = readStatus(text, plugin);
  const { token, clientCertificateData: certificate, clientKeyData: key, expirationTimestamp } = status;
  const hasToken = typeof token === "string" && token !== "";
  const hasPair = typeof certificate === "string" && typeof key === "string";
  if (!hasToken && !hasPair)
    throw invalid(plugin, "gave neither a token nor a client certificate with its key");
  const expiresAtMs =
    typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) : Number.POSITIVE_INFINITY;
  if (Number.isNaN(expiresAtMs)) throw invalid(plugin, "gave an expirationTimestamp that is not RFC 3339");
  return {
    credential: { ...(hasToken ? { token } : {}), ...(hasPair ? { certificate, key } : {}) },
    expiresAtMs,
  };
}

function readStatus(text: string, plugin: ExecPlugin): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw invalid(plugin, "did not print JSON");
  }
  if (!isObject(parsed) || parsed["kind"] !== "ExecCredential")
    throw invalid(plugin, "did not print an ExecCredential");
  if (parsed["apiVersion"] !== plugin.apiVersion)
    throw invalid(plugin, `returned an apiVersion other than ${plugin.apiVersion}`);
  if (!isObject(parsed["status"])) throw invalid(plugin, "printed an ExecCredential without status");
  return parsed["status"];
}

function invalid(plugin: ExecPlugin, what: string): FleetError {
  return new FleetError("KUBECONFIG_INVALID", `${plugin.field}: the command ${plugin.command} ${what}`, {
    detail: { field: plugin.field, command: plugin.command },
  });
}

async function runPlugin(
  plugin: ExecPlugin,
  env: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): Promise<string> {
  const detail = { field: plugin.field, command: plugin.command };
  const hint = plugin.installHint === undefined ? "" : `; ${plugin.installHint}`;
  const options = { addEnv: env, allowFailure: true, ...defined({ signal }) };
  const result = await exec(plugin.command, plugin.args, options).catch((cause: unknown) => {
    throw new FleetError("KUBECONFIG_INVALID", `${plugin.field}: cannot run ${plugin.command}${hint}`, {
      cause,
      detail,
    });
  });
  if (result.exitCode === 0) return result.stdout;
  // Standard output stays out of the message: a plugin may have printed half a credential.
  const said = result.stderr.trim().slice(0, 1000);
  const message = `${plugin.field}: ${plugin.command} ended with code ${result.exitCode}: ${said}`;
  throw new FleetError("KUBECONFIG_INVALID", message, { detail, retriable: true });
}
