import { byText } from "@fairlead/base/text.ts";
import { qualifiedNameProblems } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { absent, duplicate, invalid, notAllowed, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, textAt } from "@fairlead/base/fields.ts";
import { dnsLabel } from "./names.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";

/** Names and amounts of what is used up. Source: k8s.io/kubernetes, pkg/apis/core/helper and core/validation. */

const CONTAINER_RESOURCES = new Set(["cpu", "memory", "ephemeral-storage"]);
const STANDARD_RESOURCES = new Set([
  "cpu",
  "memory",
  "ephemeral-storage",
  "requests.cpu",
  "requests.memory",
  "requests.ephemeral-storage",
  "limits.cpu",
  "limits.memory",
  "limits.ephemeral-storage",
  "pods",
  "resourcequotas",
  "services",
  "replicationcontrollers",
  "secrets",
  "configmaps",
  "persistentvolumeclaims",
  "storage",
  "requests.storage",
  "services.nodeports",
  "services.loadbalancers",
]);
/** Counted in whole numbers. */
const COUNTED = new Set([
  "pods",
  "services",
  "replicationcontrollers",
  "resourcequotas",
  "secrets",
  "configmaps",
  "persistentvolumeclaims",
  "services.nodeports",
  "services.loadbalancers",
]);
const ONE = 10n ** 9n;

function isHugePages(name: string): boolean {
  return name.startsWith("hugepages-");
}

/** Of Kubernetes itself, as opposed to `example.com/gpu`. */
function isNative(name: string): boolean {
  return !name.includes("/") || name.includes("kubernetes.io/");
}

export function isStandardResource(name: string): boolean {
  return STANDARD_RESOURCES.has(name) || name.startsWith("requests.hugepages-") || isHugePages(name);
}

/** Extended resources have the prefix of a domain, and must still be a name with `requests.` before it. */
export function isExtendedResource(name: string): boolean {
  if (isNative(name) || name.startsWith("requests.")) return false;
  return qualifiedNameProblems(`requests.${name}`).length === 0;
}

/** Resources that can be overcommitted. */
function isOvercommitted(name: string): boolean {
  return isNative(name) && !isHugePages(name);
}

export function resourceName(name: string, path: string): FieldError[] {
  const problems = qualifiedNameProblems(name).map((it) => invalid(path, name, it));
  if (problems.length > 0 || name.includes("/") || isStandardResource(name)) return problems;
  return [invalid(path, name, "must be a standard resource type or fully qualified")];
}

export function containerResourceName(name: string, path: string): FieldError[] {
  const errors = resourceName(name, path);
  if (!name.includes("/")) {
    if (CONTAINER_RESOURCES.has(name) || isHugePages(name)) return errors;
    return [...errors, invalid(path, name, "must be a standard resource for containers")];
  }
  if (isNative(name) || isExtendedResource(name)) return errors;
  return [...errors, invalid(path, name, "doesn't follow extended resource name standard")];
}

export function resourceQuantity(name: string, value: unknown, path: string): FieldError[] {
  const size = parseQuantity(value) ?? 0n;
  const errors = size < 0n ? [invalid(path, value, "must be greater than or equal to 0")] : [];
  const isWhole = size % ONE === 0n || !(COUNTED.has(name) || isExtendedResource(name));
  return isWhole ? errors : [...errors, invalid(path, value, "must be an integer")];
}

export type NameRule = (name: string, path: string) => FieldError[];

/** A map from resource to amount. */
function resourceList(list: Fields | undefined, path: string, checkName: NameRule): FieldError[] {
  return Object.entries(list ?? {}).flatMap(([name, value]) => {
    const at = `${path}[${name}]`;
    return [...checkName(name, at), ...resourceQuantity(name, value, at)];
  });
}

/** Requests and limits of containers and pods. */
export function resourceRequirements(
  of: Fields | undefined,
  path: string,
  checkName: NameRule = containerResourceName,
): FieldError[] {
  const limits = fieldsAt(of, "limits");
  const requests = fieldsAt(of, "requests");
  const names = [...Object.keys(limits ?? {}), ...Object.keys(requests ?? {})];
  const isBare = names.some(isHugePages) && !names.includes("cpu") && !names.includes("memory");
  return [
    ...resourceList(limits, `${path}.limits`, checkName),
    ...Object.entries(requests ?? {}).flatMap(([name, value]) => [
      ...resourceList({ [name]: value }, `${path}.requests`, checkName),
      ...requestWithinLimit({ name, value, limit: limits?.[name], path }),
    ]),
    ...(isBare ? [notAllowed(path, "HugePages require cpu or memory")] : []),
  ];
}

/** Claims that a container asks for are claims of its pod, each named once. */
export function resourceClaims(of: Fields | undefined, path: string, podSpec: Fields): FieldError[] {
  const known = itemsAt(podSpec, "resourceClaims").map((it) => textAt(it, "name"));
  const which = known.length === 0 ? " which is empty" : `: ${known.toSorted(byText).join(", ")}`;
  const seen = new Set<string>();
  return itemsAt(of, "claims").flatMap((it, index) => {
    const [name, request] = [textAt(it, "name"), textAt(it, "request")];
    const at = `${path}[${index}]`;
    if (name === "") return [required(at)];
    const key = request === "" ? name : `${name}/${request}`;
    // A claim without request stands for all requests of it.
    const isPartSeen = request === "" && [...seen].some((other) => other.startsWith(`${name}/`));
    const again = seen.has(name) || isPartSeen ? name : key;
    const isSeen = seen.has(again) || isPartSeen;
    seen.add(key);
    return [
      ...(request === "" ? [] : dnsLabel(request, `${at}.request`)),
      ...(isSeen ? [duplicate(at, again)] : []),
      ...(known.includes(name)
        ? []
        : [absent(at, name, `must be one of the names in pod.spec.resourceClaims${which}`)]),
    ];
  });
}

/** A quantity as it is written. */
export function textOf(quantity: unknown): string {
  return typeof quantity === "string" || typeof quantity === "number" ? String(quantity) : "";
}

interface Request {
  readonly name: string;
  readonly value: unknown;
  readonly limit: unknown;
  readonly path: string;
}

function requestWithinLimit({ name, value, limit, path }: Request): FieldError[] {
  if (limit === undefined) {
    if (isOvercommitted(name)) return [];
    return [required(`${path}.limits`, "Limit must be set for non overcommitable resources")];
  }
  const wanted = parseQuantity(value) ?? 0n;
  const most = parseQuantity(limit) ?? 0n;
  const at = `${path}.requests`;
  if (wanted !== most && !isOvercommitted(name)) {
    return [invalid(at, value, `must be equal to ${name} limit of ${textOf(limit)}`)];
  }
  if (wanted <= most) return [];
  return [invalid(at, value, `must be less than or equal to ${name} limit of ${textOf(limit)}`)];
}
