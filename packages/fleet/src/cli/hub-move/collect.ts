import { HUB_CRDS } from "#api/crds.ts";
import { NEXT_HUB } from "#api/fairlead.dev/hub-move.ts";
import { MAILBOX_PREFIX, VIEW_PREFIX } from "#api/networking.fleet.azure.com/names.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  type Placement,
  RESOURCE_PLACEMENTS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { isNamespace } from "#placement/selection/rules.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { RESOURCE_QUOTAS } from "@fairlead/kube/api/core/v1/quota.ts";
import { NAMESPACES, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HubObjects } from "../placement/selected.ts";

/** What a hub has of its fleet. */

export interface Item {
  readonly of: Resource;
  readonly key: ObjectKey;
  readonly object: KubeObject;
  /** As it is placed, of an object that placements select. Undefined for the fleet's own objects. */
  readonly content?: KubeObject;
  /** Whether placements select it. */
  readonly isSelected: boolean;
}

/** By `itemKey`. */
export type Collection = ReadonlyMap<string, Item>;

export function itemKey(of: Pick<Resource, "group" | "kind">, key: ObjectKey): string {
  return `${of.group}/${of.kind} ${key}`;
}

/** The part of users in members, which a hub has only where placements select it. */
const OF_USERS = new Set(["ServiceExport", "MultiClusterService"]);

export interface FleetKind extends Resource {
  readonly hasStatus: boolean;
}

/** The fleet's own kinds, in the version that is stored: the others leave fields out. */
export const FLEET_KINDS: readonly FleetKind[] = HUB_CRDS.flatMap(({ spec }) => {
  const stored = spec.versions.find((it) => it.storage);
  if (stored === undefined || OF_USERS.has(spec.names.kind)) return [];
  const { plural, kind } = spec.names;
  const namespaced = spec.scope === "Namespaced";
  const hasStatus = stored.subresources?.status !== undefined;
  return [{ group: spec.group, version: stored.name, plural, kind, namespaced, hasStatus }];
});

export function isFleetKind(of: Resource): of is FleetKind {
  return "hasStatus" in of;
}

/** In the namespaces of members and views, in addition to the fleet's kinds. Leases say since when a member has been silent. */
const IN_MAILBOXES: readonly Resource[] = [SERVICE_ACCOUNTS, RESOURCE_QUOTAS, ROLES, ROLE_BINDINGS, LEASES];
/** Made by each API server itself, or by the move. */
const NOT_COPIED = new Set(["default", NEXT_HUB]);
const OURS = "fairlead.dev/";

export async function collect(client: KubeClient, signal: AbortSignal): Promise<Collection> {
  const found = new Map<string, Item>();
  const add: Add = (of, object, selected) => {
    const key = keyOf(object);
    const typed = { ...object, apiVersion: apiVersionOf(of), kind: of.kind };
    const name = itemKey(of, key);
    if (!found.has(name)) found.set(name, { of, key, object: typed, isSelected: false, ...selected });
  };
  for (const [of, objects] of await readAll(client, FLEET_KINDS, signal))
    for (const it of objects) add(of, it);
  for (const [of, objects] of await readAll(client, IN_MAILBOXES, signal))
    for (const it of objects)
      if (isOfFleet(it.metadata.namespace) && !NOT_COPIED.has(it.metadata.name)) add(of, it);
  await addSelected(client, found, add, signal);
  await addNamespaces(client, found, add, signal);
  return found;
}

async function readAll(
  client: KubeClient,
  kinds: readonly Resource[],
  signal: AbortSignal,
): Promise<readonly (readonly [Resource, readonly KubeObject[]])[]> {
  return Promise.all(
    kinds.map(async (of) => {
      try {
        return [of, (await client.list(of, { signal })).items] as const;
      } catch (error) {
        // A hub without placements, or one that gets its kinds yet.
        if (hasCode(error, "API_NOT_FOUND")) return [of, []] as const;
        throw error;
      }
    }),
  );
}

type Add = (of: Resource, object: KubeObject, selected?: Pick<Item, "content" | "isSelected">) => void;

const PLACEMENT_KINDS = new Set([CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS].map((it) => it.kind));

export function placementsIn(collection: Collection): readonly Placement[] {
  const items = [...collection.values()].filter(({ of }) => isFleetKind(of) && PLACEMENT_KINDS.has(of.kind));
  return items.map((it) => it.object as Placement);
}

/** What placements select, as it is placed. */
async function addSelected(
  client: KubeClient,
  found: Collection,
  add: Add,
  signal: AbortSignal,
): Promise<void> {
  const placements = placementsIn(found);
  if (placements.length === 0) return;
  const hub = await HubObjects.of(client, signal);
  for (const placement of placements) {
    // What prevents a snapshot here would be missing there, and be taken for deleted: it is copied, too.
    const { objects } = await hub.select(placement);
    for (const { of, object: selected, content } of objects)
      add(of, selected, { isSelected: true, ...(isNamespace(of) ? {} : { content }) });
  }
}

/** Of members and views; and of users, if anything in them is of the fleet, or says something to it. */
async function addNamespaces(
  client: KubeClient,
  found: Collection,
  add: Add,
  signal: AbortSignal,
): Promise<void> {
  const used = new Set([...found.values()].map((it) => it.object.metadata.namespace ?? ""));
  const { items } = await client.list(NAMESPACES, { signal });
  for (const it of items) {
    const { name, annotations = {} } = it.metadata;
    const isSaid = Object.keys(annotations).some((key) => key.startsWith(OURS));
    if (isOfFleet(name) || used.has(name) || isSaid) add(NAMESPACES, it);
  }
}

export function isOfFleet(namespace = ""): boolean {
  return namespace.startsWith(MAILBOX_PREFIX) || namespace.startsWith(VIEW_PREFIX);
}
