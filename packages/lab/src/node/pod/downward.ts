import type { Container, Pod, ResourceFieldSelector } from "@fairlead/kube/api/core/v1/types.ts";
import { ceilDivide, ONE, parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { byText } from "@fairlead/base/text.ts";

/** The downward API: fields and resources that a pod can read about itself. Pure. */

/** Facts about the pod's placement that its spec does not contain. */
export interface PodPlace {
  readonly podIPs: readonly string[];
  readonly hostIPs: readonly string[];
}

type Reader = (pod: Pod, place: PodPlace) => string;

const FIELDS: Readonly<Record<string, Reader>> = {
  "metadata.name": (pod) => pod.metadata.name,
  "metadata.namespace": (pod) => pod.metadata.namespace ?? "",
  "metadata.uid": (pod) => pod.metadata.uid ?? "",
  "metadata.labels": (pod) => renderPairs(pod.metadata.labels),
  "metadata.annotations": (pod) => renderPairs(pod.metadata.annotations),
  "spec.nodeName": (pod) => pod.spec?.nodeName ?? "",
  "spec.serviceAccountName": (pod) => pod.spec?.serviceAccountName ?? "",
  "status.podIP": (_, place) => place.podIPs[0] ?? "",
  "status.podIPs": (_, place) => place.podIPs.join(","),
  "status.hostIP": (_, place) => place.hostIPs[0] ?? "",
  "status.hostIPs": (_, place) => place.hostIPs.join(","),
};

/** The value of a `fieldRef`; undefined for a path that no pod has. */
export function readField(fieldPath: string, pod: Pod, place: PodPlace): string | undefined {
  const [, kind, key] = /^metadata\.(labels|annotations)\['([^']+)'\]$/.exec(fieldPath) ?? [];
  if (key !== undefined) {
    const pairs = kind === "labels" ? pod.metadata.labels : pod.metadata.annotations;
    return pairs?.[key] ?? "";
  }
  return Object.hasOwn(FIELDS, fieldPath) ? FIELDS[fieldPath]?.(pod, place) : undefined;
}

/** One line for each pair, as upstream's downward API writes them: `key="quoted value"`, by key. */
function renderPairs(pairs: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(pairs ?? {})
    .toSorted(([a], [b]) => byText(a, b))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join("\n");
}

/**
 * The value of a `resourceFieldRef` in units of its divisor, rounded up; a limit that is not set is the node's capacity.
 * Undefined for what no container has.
 */
export function readResource(
  { resource, divisor = "1" }: ResourceFieldSelector,
  container: Container,
  capacity: Readonly<Record<string, string>>,
): string | undefined {
  const [, kind, name] = /^(limits|requests)\.([a-z0-9./-]+)$/.exec(resource) ?? [];
  if (name === undefined) return undefined;
  const wanted = kind === "limits" ? limitOf(name, container, capacity) : requestOf(name, container);
  const value = parseQuantity(wanted);
  const unit = parseQuantity(divisor) ?? 0n;
  if (value === undefined) return undefined;
  // "0" stands for a divisor that was not given.
  return String(ceilDivide(value, unit > 0n ? unit : ONE));
}

function limitOf(name: string, { resources }: Container, capacity: Readonly<Record<string, string>>): string {
  return resources?.limits?.[name] ?? capacity[name] ?? "";
}

function requestOf(name: string, { resources }: Container): string {
  return resources?.requests?.[name] ?? resources?.limits?.[name] ?? "0";
}
