import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  IDENTITY_SLICES,
  type IdentityNode,
  type IdentitySlice,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { isReservedNamespace, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { shortHash } from "#api/fairlead.dev/cluster-names.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Namespace, Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { WantsReader } from "#domain/identity-wants.ts";
import { fleetAddressOf, seenAddresses } from "../fleet-addresses.ts";
import { isInGlobalNamespace } from "../global-services.ts";
import type { Session } from "../session.ts";
import { hasAddresses, homeOf, identityOf, planSlices, templateOf, templateOfSlice } from "./groups.ts";
import { type IdentityMailbox, namespaceKey, NODES_KEY, podsKey } from "./mailbox.ts";
import type { Pods } from "./pods.ts";

export interface Publisher {
  readonly session: Session;
  readonly mailbox: IdentityMailbox;
  readonly pods: Pods;
  readonly wanted: WantsReader;
}

type Spec = IdentitySlice["spec"];
type Contents = Omit<Spec, "publishedAt">;

/** Writes what other clusters need to know of pods with equal labels. */
export async function publishPods(parts: Publisher, group: ObjectKey, signal: AbortSignal): Promise<void> {
  const { session, mailbox, pods, wanted } = parts;
  const slices = mailbox.in(podsKey(group));
  const present = podsOf(parts, group, slices).filter(hasAddresses);
  const [first] = pods.in(group);
  const [slice] = slices;
  const ofPods = first === undefined ? undefined : templateOf(first);
  const template = slice === undefined ? ofPods : templateOfSlice(slice.spec);
  const namespace = template === undefined ? undefined : globalNamespace(session, template.namespace);
  const known =
    namespace === undefined || template === undefined
      ? []
      : present.flatMap((pod) => {
          const labels = pod.metadata.labels ?? {};
          const isWanted = wanted.pods(template.namespace, namespace.metadata.labels ?? {}, labels);
          return isWanted ? (identityOf(pod, addressesOf(parts, pod), template) ?? []) : [];
        });
  const plan = planSlices(group, known, new Map(slices.map((it) => [it.metadata.name, it.spec.pods ?? []])));
  await removeSlices(parts, slices, plan.remove, signal);
  for (const { name, entries } of plan.write)
    await applySlice(
      parts,
      name,
      { cluster: session.cluster, type: "Pods", ...template, pods: [...entries] },
      signal,
    );
}

/** Those that are published in the slices of the group: also such with other labels than when they came there. */
function podsOf({ mailbox, pods }: Publisher, group: ObjectKey, slices: readonly IdentitySlice[]): Pod[] {
  const named = slices.flatMap(({ spec }) =>
    (spec.pods ?? []).flatMap((it) => pods.find(objectKey(spec.namespace, it.name)) ?? []),
  );
  return [...new Set([...pods.in(group), ...named])].filter(
    (it) => homeOf(it, pods.groupOf(it), mailbox.holding(it.metadata)) === group,
  );
}

/** In a parallel network pods are seen by their fleet addresses; on the way there and back by both. */
export function addressesOf({ session, pods }: Publisher, pod: Pod): string[] {
  const uid = pod.metadata.uid ?? "";
  const seen = seenAddresses(session);
  const fleet = seen.fleet
    ? (["IPv4", "IPv6"] as const).flatMap((it) => fleetAddressOf(session, uid, it) ?? [])
    : [];
  return [...fleet, ...(seen.own ? pods.addressesOf(pod) : [])];
}

/** Writes the nodes of this cluster. In a parallel network others do not see them by their addresses. */
export async function publishNodes(parts: Publisher, signal: AbortSignal): Promise<void> {
  const { session, mailbox, wanted } = parts;
  const { nodes: known } = session.ranges ?? {};
  // Which nodes exist is not known yet: nothing is removed.
  if (known?.hasSynced !== true) return;
  const isPublished = wanted.nodes && seenAddresses(session).own;
  const nodes = isPublished ? [...known.store.list()].flatMap((it) => nodeOf(it) ?? []) : [];
  const slices = mailbox.in(NODES_KEY);
  const plan = planSlices(
    NODES_KEY,
    nodes,
    new Map(slices.map((it) => [it.metadata.name, it.spec.nodes ?? []])),
  );
  await removeSlices(parts, slices, plan.remove, signal);
  for (const { name, entries } of plan.write)
    await applySlice(parts, name, { cluster: session.cluster, type: "Nodes", nodes: [...entries] }, signal);
}

function nodeOf({ metadata: { name, labels = {} }, status }: Node): IdentityNode | undefined {
  const addresses = (status?.addresses ?? []).map((it) => it.address);
  const shown = Object.keys(labels).length === 0 ? {} : { labels };
  return addresses.length === 0 ? undefined : { name, addresses, ...shown };
}

/** Writes the labels of a namespace. */
export async function publishNamespace(parts: Publisher, name: string, signal: AbortSignal): Promise<void> {
  const { session, mailbox, wanted } = parts;
  const namespace = globalNamespace(session, name);
  const labels = namespace?.metadata.labels ?? {};
  const isPublished = namespace !== undefined && wanted.namespace(name, labels);
  const slices = mailbox.in(namespaceKey(name));
  const own = shortHash(`namespace/${name}`, 16);
  const gone = slices.map((it) => it.metadata.name).filter((it) => it !== own || !isPublished);
  await removeSlices(parts, slices, gone, signal);
  const contents: Contents = { cluster: session.cluster, type: "Namespace", namespace: name, labels };
  if (isPublished) await applySlice(parts, own, contents, signal);
}

/** Undefined if other clusters are not to know it. */
function globalNamespace(session: Session, name: string): Namespace | undefined {
  if (isReservedNamespace(name) || !isInGlobalNamespace(session, name)) return undefined;
  return session.here.namespaces.store.get(objectKey(undefined, name));
}

export async function applySlice(
  parts: Publisher,
  name: string,
  contents: Contents,
  signal: AbortSignal,
): Promise<void> {
  const { session, mailbox } = parts;
  const current = mailbox.find(name);
  const { publishedAt, ...before } = current?.spec ?? { publishedAt: undefined };
  const isSame = publishedAt !== undefined && sameJson(before, withoutEmpty(contents));
  const spec = { ...withoutEmpty(contents), publishedAt: isSame ? publishedAt : session.stopwatch.stamp() };
  const { metadata } = await applyIfChanged(session.hub, IDENTITY_SLICES, {
    current,
    desired: { metadata: { namespace: mailboxOf(session.cluster), name }, spec },
    fieldManager: MEMBER_MANAGER,
    returns: "metadata",
    signal,
  });
  mailbox.noteWritten({ metadata, spec });
}

/** What is empty is not written. */
function withoutEmpty(contents: Contents): Contents {
  const isEmpty = (value: unknown): boolean =>
    typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return Object.fromEntries(Object.entries(contents).filter(([, it]) => !isEmpty(it))) as unknown as Contents;
}

export async function removeSlices(
  { session: { hub }, mailbox }: Publisher,
  slices: readonly IdentitySlice[],
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const it of slices)
    if (names.includes(it.metadata.name)) {
      await hub.delete(IDENTITY_SLICES, keyOf(it), { signal });
      mailbox.noteDeleted(it);
    }
}
