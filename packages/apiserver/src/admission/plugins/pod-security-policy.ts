import type { ApiObject } from "#values/object.ts";

/** The pod security labels of a namespace. Source: k8s.io/pod-security-admission, api. */

export const PREFIX = "pod-security.kubernetes.io/";

/** From the least to the most strict. */
export const LEVELS: readonly string[] = ["privileged", "baseline", "restricted"];

export function isLevel(text: string): boolean {
  return LEVELS.includes(text);
}

export function strictness(level: string): number {
  return LEVELS.indexOf(level);
}

export interface Policy {
  readonly level: string;
  readonly version: string;
  /** "restricted:latest". */
  readonly text: string;
}

export function policyOf(namespace: ApiObject, mode: "enforce" | "warn" | "audit"): Policy {
  const labels = namespace.metadata.labels ?? {};
  const asked = labels[`${PREFIX}${mode}`] ?? "privileged";
  // An invalid level means "restricted".
  const level = isLevel(asked) ? asked : "restricted";
  return policyFor(level, labels[`${PREFIX}${mode}-version`] ?? "latest");
}

export function policyFor(level: string, version: string): Policy {
  return { level, version, text: `${level}:${version}` };
}

export function enforcedPolicy(namespace: ApiObject): Policy {
  return policyOf(namespace, "enforce");
}
