import { mkdirSync, readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";
import { dirname, resolve } from "node:path";
import { parseDuration } from "@fairlead/base/duration.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";

/** Parsers of the API server's flags, with errors for people. */

/** Step by step: asked for all steps at once, Node never comes back from below a folder that cannot hold any (`/proc`). */
export function makeFolder(folder: string): void {
  const path = resolve(folder);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) return;
  if (found !== undefined)
    throw new FleetError("OPTION_INVALID", `--data must be a folder, and ${path} is a file`);
  makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--data: cannot create the folder ${path}`, { cause });
  }
}

/** @throws {FleetError} `OPTION_INVALID` where one of the two files is missing or cannot be read. */
export function certificateOf(
  certFile: string | undefined,
  keyFile: string | undefined,
): CertificatePair | undefined {
  const cert = readFlagFile("--tls-cert-file", certFile);
  const key = readFlagFile("--tls-private-key-file", keyFile);
  if (cert !== undefined && key !== undefined) return { cert, key };
  if (cert === undefined && key === undefined) return undefined;
  throw new FleetError("OPTION_INVALID", "--tls-cert-file and --tls-private-key-file must be set together");
}

/** Every admission plugin of a real server. Source: pkg/kubeapiserver/options, `AllOrderedPlugins`. */
const ADMISSION_PLUGINS: ReadonlySet<string> = new Set([
  "AlwaysAdmit",
  "NamespaceAutoProvision",
  "NamespaceLifecycle",
  "NamespaceExists",
  "LimitPodHardAntiAffinityTopology",
  "LimitRanger",
  "ServiceAccount",
  "NodeRestriction",
  "TaintNodesByCondition",
  "AlwaysPullImages",
  "ImagePolicyWebhook",
  "PodSecurity",
  "PodNodeSelector",
  "Priority",
  "DefaultTolerationSeconds",
  "PodTolerationRestriction",
  "EventRateLimit",
  "ExtendedResourceToleration",
  "DefaultStorageClass",
  "StorageObjectInUseProtection",
  "OwnerReferencesPermissionEnforcement",
  "PersistentVolumeClaimResize",
  "RuntimeClass",
  "CertificateApproval",
  "CertificateSigning",
  "ClusterTrustBundleAttest",
  "CertificateSubjectRestriction",
  "DefaultIngressClass",
  "DenyServiceExternalIPs",
  "PodTopologyLabels",
  "MutatingAdmissionPolicy",
  "MutatingAdmissionWebhook",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionWebhook",
  "ResourceQuota",
  "AlwaysDeny",
]);

/** A list of admission plugins. Those that this server does not have are off in any case. */
export function parsePlugins(text: string): readonly string[] {
  const names = splitList(text).filter((it) => it !== "");
  const unknown = names.find((it) => !ADMISSION_PLUGINS.has(it));
  if (unknown === undefined) return names;
  throw new FleetError(
    "OPTION_INVALID",
    `--disable-admission-plugins: unknown admission plugin ${JSON.stringify(unknown)}`,
  );
}

export function parseAddress(text: string): string {
  if (isIP(text) !== 0) return text;
  throw new FleetError("OPTION_INVALID", `an IPv4 or IPv6 address is expected, got ${JSON.stringify(text)}`);
}

/** A number of seconds, or a duration such as "90s". @returns Milliseconds. */
export function parseSeconds(text: string): number {
  const ms = /^[0-9]{1,6}$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms !== undefined) return ms;
  throw new FleetError("OPTION_INVALID", `a time such as 60s is expected, got ${JSON.stringify(text)}`);
}

export function splitList(text: string): string[] {
  return text.split(",").map((it) => it.trim());
}

/** The text of the file that a flag names. */
export function readFlagFile(flag: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `${flag}: cannot read ${path}`, { cause });
  }
}
