import type { Container, Pod } from "#api/core/v1/types.ts";
import { byText } from "#base/text.ts";

/** What a pod may be told of itself: fields and resources. Pure. */

/** Where the pod stands, which its spec does not say. */
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

/** The value of a `resourceFieldRef` in whole CPUs or bytes, rounded up; a limit that is not set is the node's capacity. */
export function readResource(
  resource: string,
  container: Container,
  capacity: Readonly<Record<string, string>>,
): string | undefined {
  const [, kind, name] = /^(limits|requests)\.([a-z0-9./-]+)$/.exec(resource) ?? [];
  if (name === undefined) return undefined;
  const { limits, requests } = container.resources ?? {};
  const own = kind === "limits" ? limits?.[name] : (requests?.[name] ?? limits?.[name]);
  const text = own ?? (kind === "limits" ? capacity[name] : "0");
  return text === undefined ? undefined : quantityCeil(text);
}

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

function quantityCeil(text: string): string | undefined {
  const [, number, suffix = ""] = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(text) ?? [];
  const factor = SUFFIXES[suffix];
  return number === undefined || factor === undefined
    ? undefined
    : String(Math.ceil(Number(number) * factor));
}
