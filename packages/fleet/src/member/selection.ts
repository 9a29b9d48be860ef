import { SERVICE_NAMESPACE_LABEL, SOURCE_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";

/**
 * Which part of the view a member reads: services of its own namespaces, and endpoints of other clusters. Undefined
 * namespaces: those of all. Pure.
 */
export interface Selection {
  readonly namespaces: ReadonlySet<string> | undefined;
}

export const ALL: Selection = { namespaces: undefined };

export interface Selectors {
  readonly services: string | undefined;
  readonly slices: string;
}

/**
 * A selector is part of the URL of a request, which proxies limit to 8 KiB: a cluster with more namespaces reads those of
 * all. The selector is also evaluated for each object.
 */
const MOST_NAMESPACES = 100;
/** As it is in the address. Unit: bytes. */
const MOST_BYTES = 6000;

/** @param namespaces - Undefined where they cannot be read. */
export function selectionOf(namespaces: ReadonlySet<string> | undefined): Selection {
  const isShort =
    namespaces !== undefined && namespaces.size <= MOST_NAMESPACES && lengthOf(namespaces) <= MOST_BYTES;
  return { namespaces: isShort ? namespaces : undefined };
}

function lengthOf(namespaces: ReadonlySet<string>): number {
  return encodeURIComponent([...namespaces].join(",")).length;
}

export function selectorsOf({ namespaces }: Selection, cluster: string): Selectors {
  const services =
    namespaces === undefined ? undefined : `${SERVICE_NAMESPACE_LABEL} in (${listed(namespaces)})`;
  const others = `${SOURCE_CLUSTER_LABEL}!=${cluster}`;
  return { services, slices: services === undefined ? others : `${others},${services}` };
}

/** Sorted, so that one selection is one text. None: the empty value, which no namespace is. */
function listed(namespaces: ReadonlySet<string>): string {
  return [...namespaces].toSorted().join(",");
}

/** Whether a service of that namespace is read. */
export function isSelected({ namespaces }: Selection, namespace: string): boolean {
  return namespaces === undefined || namespaces.has(namespace);
}

/** Whether all is read that has to be. */
export function covers(selection: Selection, wanted: ReadonlySet<string> | undefined): boolean {
  if (selection.namespaces === undefined) return true;
  return wanted !== undefined && wanted.isSubsetOf(selection.namespaces);
}

/**
 * Whether it is time to read another part. Namespaces that went do no harm, they are left out with the next change; but
 * who had to read all should not do so for ever.
 */
export function isStale(selection: Selection, wanted: ReadonlySet<string> | undefined): boolean {
  if (!covers(selection, wanted)) return true;
  if (selection.namespaces !== undefined || wanted === undefined) return false;
  return wanted.size <= MOST_NAMESPACES / 2 && lengthOf(wanted) <= MOST_BYTES / 2;
}
