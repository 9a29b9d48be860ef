import { isObject } from "@fairlead/base/json.ts";

/** Fields by which items of lists are the same item: those of built-in kinds (`patchMergeKey` in k8s.io/api). */

const KEYS: Readonly<Record<string, readonly string[]>> = {
  containers: ["name"],
  initContainers: ["name"],
  ephemeralContainers: ["name"],
  env: ["name"],
  volumes: ["name"],
  volumeMounts: ["mountPath"],
  volumeDevices: ["devicePath"],
  imagePullSecrets: ["name"],
  resourceClaims: ["name"],
  schedulingGates: ["name"],
  secrets: ["name"],
  hostAliases: ["ip"],
  topologySpreadConstraints: ["topologyKey", "whenUnsatisfiable"],
  webhooks: ["name"],
  matchConditions: ["name"],
};
/** What the server writes where a key is left out. */
const DEFAULTS: Readonly<Record<string, string>> = { protocol: "TCP" };

const BUILT_IN = new Set([
  "",
  "apps",
  "batch",
  "autoscaling",
  "policy",
  "extensions",
  "networking.k8s.io",
  "rbac.authorization.k8s.io",
  "storage.k8s.io",
  "admissionregistration.k8s.io",
]);

export function isBuiltIn(group: string): boolean {
  return BUILT_IN.has(group);
}

/** Lists of texts whose items have several writers. */
export function isSet(field: string): boolean {
  return field === "finalizers";
}

/** Returns the fields that identify the items of a list; undefined if the list is one value. */
export function mergeKeysOf(
  path: readonly string[],
  items: readonly unknown[],
): readonly string[] | undefined {
  const field = path.at(-1) ?? "";
  if (field !== "ports") return Object.hasOwn(KEYS, field) ? KEYS[field] : undefined;
  if (path.length === 2 && path[0] === "spec") return ["port", "protocol"];
  return items.every((it) => isObject(it) && it["containerPort"] !== undefined)
    ? ["containerPort", "protocol"]
    : undefined;
}

/** The items by their keys; undefined if one has no key, or two have the same. */
export function itemsByKey(
  items: readonly unknown[],
  keys: readonly string[],
): Map<string, Record<string, unknown>> | undefined {
  const byKey = new Map<string, Record<string, unknown>>();
  for (const item of items) {
    if (!isObject(item)) return undefined;
    const values = keys.map((key) => item[key] ?? DEFAULTS[key]);
    if (values.includes(undefined)) return undefined;
    byKey.set(JSON.stringify(values), item);
  }
  return byKey.size === items.length ? byKey : undefined;
}
