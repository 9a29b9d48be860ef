import { createHash } from "node:crypto";
import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  type Endpoint,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import type { OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { NAME_ALPHABET } from "../names.ts";
import { ownerReferenceTo } from "../templates.ts";
import { type EndpointGroup, groupKey } from "./endpoints.ts";

/** As upstream's controller: endpoints of one slice, and how it signs. */
export const MAX_ENDPOINTS = 100;
export const MANAGED_BY = "endpointslice-controller.k8s.io";
const HEADLESS_LABEL = "service.kubernetes.io/headless";

/** The owner of the slices and the properties that the slices get from it. */
export interface SliceTarget {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly owner: OwnerReference;
}

export function targetOf(service: Service): SliceTarget {
  const headless: Record<string, string> = service.spec?.clusterIP === "None" ? { [HEADLESS_LABEL]: "" } : {};
  const { [HEADLESS_LABEL]: _, ...own } = service.metadata.labels ?? {};
  const { name, namespace = "" } = service.metadata;
  return {
    namespace,
    labels: { ...own, ...headless, [SERVICE_NAME_LABEL]: name, [MANAGED_BY_LABEL]: MANAGED_BY },
    owner: ownerReferenceTo(SERVICES, service),
  };
}

export interface SlicePlan {
  readonly create: readonly EndpointSlice[];
  readonly update: readonly EndpointSlice[];
  readonly delete: readonly EndpointSlice[];
}

/** A slice that is there, and what it is to hold. */
interface Draft {
  readonly slice: EndpointSlice;
  endpoints: Endpoint[];
  isChanged: boolean;
  isSpare: boolean;
}

/**
 * The fewest writes that make the slices say what `groups` say: endpoints stay in the slice that has them, new ones go
 * where something is written anyway, and only what is left opens slices of its own. Slices are never repacked.
 */
export function planSlices(
  target: SliceTarget,
  groups: readonly EndpointGroup[],
  existing: readonly EndpointSlice[],
): SlicePlan {
  const drafts: (Draft & { readonly group: EndpointGroup })[] = [];
  const create: EndpointSlice[] = [];
  const names = new Set(existing.map((slice) => slice.metadata.name));
  for (const group of groups) {
    const taken = new Set(drafts.map((draft) => draft.slice));
    const own = slicesFor(
      group,
      existing.filter((slice) => slice.addressType === group.family && !taken.has(slice)),
    );
    const { kept, rest } = distribute(target, group, own);
    drafts.push(...kept.map((draft) => ({ ...draft, group })));
    const chunks = kept.length === 0 && rest.length === 0 ? [[]] : chunked(rest, MAX_ENDPOINTS);
    for (const endpoints of chunks) create.push(newSlice(target, group, { endpoints, names }));
  }
  const claimed = new Set(drafts.map((draft) => draft.slice));
  return {
    create,
    update: drafts.filter((it) => it.isChanged && !it.isSpare).map((it) => filled(target, it.group, it)),
    delete: [
      ...drafts.filter((draft) => draft.isSpare).map((draft) => draft.slice),
      ...existing.filter((slice) => !claimed.has(slice)),
    ],
  };
}

/**
 * The slices of its family that a group can keep. A group without endpoints needs no ports and keeps
 * any slice; a group that gets its first endpoints reuses the slice that was empty.
 */
function slicesFor(group: EndpointGroup, existing: readonly EndpointSlice[]): EndpointSlice[] {
  if (group.endpoints.length === 0)
    return existing.toSorted((a, b) => a.endpoints.length - b.endpoints.length || byName(a, b));
  const key = groupKey(group.family, group.ports);
  const own = existing.filter((slice) => groupKey(group.family, slice.ports ?? []) === key);
  return own.length > 0
    ? own.toSorted(byName)
    : existing.filter((it) => it.endpoints.length === 0).slice(0, 1);
}

function byName(a: EndpointSlice, b: EndpointSlice): number {
  return byText(a.metadata.name, b.metadata.name);
}

/** Puts a group's endpoints into its slices as far as they go; `rest` is what needs new ones. */
function distribute(
  target: SliceTarget,
  group: EndpointGroup,
  slices: readonly EndpointSlice[],
): { kept: Draft[]; rest: Endpoint[] } {
  const wanted = new Map(group.endpoints.map((endpoint) => [identityOf(endpoint), endpoint]));
  const kept = slices.map((slice) => keepIn(target, slice, wanted));
  const rest = [...wanted.values()];
  fill(
    kept.filter((draft) => draft.isChanged && draft.endpoints.length > 0),
    rest,
  );
  // One more write takes what is left, if it takes all of it; else it goes into new slices.
  const roomy = kept.filter((draft) => draft.endpoints.length + rest.length <= MAX_ENDPOINTS);
  const fullest = roomy.toSorted((a, b) => b.endpoints.length - a.endpoints.length)[0];
  if (rest.length > 0 && fullest !== undefined) fill([fullest], rest);
  // One empty slice says that there are no endpoints; any other is of no use.
  for (const [at, draft] of kept.entries())
    draft.isSpare = draft.endpoints.length === 0 && (group.endpoints.length > 0 || at > 0);
  return { kept, rest };
}

/** What of a slice is still wanted, in its newest form. Takes it out of `wanted`. */
function keepIn(target: SliceTarget, slice: EndpointSlice, wanted: Map<string, Endpoint>): Draft {
  const endpoints: Endpoint[] = [];
  let isChanged = !hasMetadata(slice, target);
  for (const endpoint of slice.endpoints) {
    const identity = identityOf(endpoint);
    const next = wanted.get(identity);
    isChanged ||= next === undefined || !sameJson(endpoint, next);
    if (next !== undefined) endpoints.push(next);
    wanted.delete(identity);
  }
  return { slice, endpoints, isChanged, isSpare: false };
}

/** Moves as many of `rest` into `drafts` as they take, the fullest first. */
function fill(drafts: readonly Draft[], rest: Endpoint[]): void {
  for (const draft of drafts.toSorted((a, b) => b.endpoints.length - a.endpoints.length)) {
    const taken = rest.splice(0, MAX_ENDPOINTS - draft.endpoints.length);
    draft.endpoints.push(...taken);
    draft.isChanged ||= taken.length > 0;
  }
}

/** An endpoint stays itself while it is the same pod at the same addresses. */
function identityOf(endpoint: Endpoint): string {
  return [endpoint.targetRef?.uid ?? "", ...endpoint.addresses].join(" ");
}

function hasMetadata(slice: EndpointSlice, { labels, owner }: SliceTarget): boolean {
  return (
    sameJson(slice.metadata.labels ?? {}, labels) && sameJson(slice.metadata.ownerReferences ?? [], [owner])
  );
}

function filled(target: SliceTarget, group: EndpointGroup, { slice, endpoints }: Draft): EndpointSlice {
  const { labels, owner } = target;
  const metadata = { ...slice.metadata, labels: { ...labels }, ownerReferences: [owner] };
  const ports = group.endpoints.length === 0 ? (slice.ports ?? []) : [...group.ports];
  return { ...slice, metadata, ports, endpoints };
}

/**
 * The name follows from the Service, the group and a number: a controller whose cache lags behind its own write runs
 * into it and tries again, instead of making a second slice for the same endpoints.
 */
function newSlice(
  target: SliceTarget,
  group: EndpointGroup,
  parts: { readonly endpoints: Endpoint[]; readonly names: Set<string> },
): EndpointSlice {
  const { namespace, labels, owner } = target;
  const seed = `${owner.uid} ${groupKey(group.family, group.ports)}`;
  let name = "";
  for (let number = 0; name === "" || parts.names.has(name); number++)
    name = `${owner.name}-${suffixOf(`${seed} ${number}`)}`;
  parts.names.add(name);
  return {
    metadata: { name, namespace, labels: { ...labels }, ownerReferences: [owner] },
    addressType: group.family,
    ports: [...group.ports],
    endpoints: parts.endpoints,
  };
}

function suffixOf(seed: string): string {
  const bytes = createHash("sha256").update(seed).digest().subarray(0, 5);
  return [...bytes].map((byte) => NAME_ALPHABET[byte % NAME_ALPHABET.length]).join("");
}

function chunked<T>(items: readonly T[], size: number): T[][] {
  const chunks: T[][] = [];
  for (let from = 0; from < items.length; from += size) chunks.push(items.slice(from, from + size));
  return chunks;
}
