import { delay } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { byText } from "@fairlead/base/text.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { cleaned } from "#placement/selection/cleaning.ts";
import { type Collection, collect, isFleetKind, isOfFleet, type Item, itemKey } from "./collect.ts";
import { inOrder, placementOf } from "./order.ts";
import {
  fleetObjectFor,
  type Generations,
  managersFor,
  remembered,
  selectedObjectFor,
  statusFor,
} from "./translate.ts";
import { removeObject, type Target, type Wanted, writeManagers, writeObject, writeStatus } from "./write.ts";

/** Requests at once. */
const CONCURRENCY = 16;
/** Creation times have whole seconds. Unit: milliseconds. */
const NEXT_SECOND_MS = 1000;
const SERVED_MS = 30_000;
const CONFLICT_TRIES = 10;
/** Of which the older one has the name that two ask for. */
const AGED = new Set(["TrafficManagerProfile", "TrafficManagerBackend"]);

export interface SyncOptions {
  readonly from: KubeClient;
  readonly target: Target;
  /** The identity of a member there, given that here. */
  readonly identityOf: (name: string, identity: Subject) => Subject;
}

export interface Synced {
  readonly objects: number;
  /** Objects that were written, without those that members renew all the time. */
  readonly written: number;
}

/** Makes a hub, whose program is paused, a copy of another one: one pass, which writes the differences alone. */
export async function sync(options: SyncOptions): Promise<Synced> {
  const { from, target } = options;
  const there = await collect(from, target.signal);
  const here = await collect(target.client, target.signal);
  const pass = new Pass(options, there, here);
  for (const step of inOrder(there)) await pass.copy(step);
  for (const step of inOrder(here).toReversed()) await pass.remove(step);
  return { objects: there.size, written: pass.written };
}

class Pass {
  readonly #options: SyncOptions;
  readonly #there: Collection;
  readonly #here: Collection;
  readonly #uids = new Map<string, string>();
  readonly #own: ReadonlyMap<string, string>;
  readonly #generations = new Map<Item, Generations>();
  written = 0;

  constructor(options: SyncOptions, there: Collection, here: Collection) {
    this.#options = options;
    this.#there = there;
    this.#here = here;
    for (const [name, it] of there) this.#note(it, here.get(name)?.object);
    this.#own = new Map(
      [...here.values()].map(({ object: { metadata } }) => [metadata.uid ?? "", metadata.uid ?? ""]),
    );
  }

  #note(item: Item, here: KubeObject | undefined): void {
    const { uid = "", generation = 0 } = item.object.metadata;
    if (here?.metadata.uid === undefined) return;
    this.#uids.set(uid, here.metadata.uid);
    this.#generations.set(item, { there: generation, here: here.metadata.generation ?? 0 });
  }

  async copy(items: readonly Item[]): Promise<void> {
    const [aged, others] = [items.filter(isAged), items.filter((it) => !isAged(it))];
    await inParallel(others, CONCURRENCY, (it) => this.#copyOne(it));
    let before: Item | undefined;
    for (const it of aged) {
      await this.#keepAge(before, it);
      await this.#copyOne(it);
      before = it;
    }
    for (const it of others) await this.#untilServed(it);
  }

  /** The older of two wins a conflict, and among those of one second the first by name. */
  async #keepAge(before: Item | undefined, item: Item): Promise<void> {
    if (before === undefined || this.#here.has(itemKey(item.of, item.key))) return;
    const [a, b] = [
      before.object.metadata.creationTimestamp ?? "",
      item.object.metadata.creationTimestamp ?? "",
    ];
    if (a === b || byText(before.key, item.key) < 0) return;
    const { deps, signal } = this.#options.target;
    await delay(deps.clock, NEXT_SECOND_MS, signal);
  }

  /** Members that are with the hub that gets the fleet write there, too. */
  async #copyOne(item: Item): Promise<void> {
    const { object } = item;
    if (isDeleting(object) && (object.metadata.finalizers ?? []).length === 0) return;
    let present = await this.#present(item);
    for (let tries = 1; ; tries += 1) {
      try {
        await this.#copyOver(item, present);
        return;
      } catch (error) {
        if (!hasCode(error, "API_CONFLICT") || tries === CONFLICT_TRIES) throw error;
        present = await this.#read(item);
      }
    }
  }

  async #copyOver(item: Item, present: KubeObject | undefined): Promise<void> {
    const { target } = this.#options;
    const { of, key, object } = item;
    const { object: after, isWritten } = await writeObject(target, this.#wanted(item), present);
    this.#note(item, after);
    const reported = await this.#copyStatus(item, after);
    const managers = managersFor(object.metadata, this.#uids);
    if (managers !== undefined) await writeManagers(target, of, reported, managers);
    const isNew = isWritten || reported !== after;
    if (isNew && !isRenewed(item)) this.written += 1;
    if (isDeleting(object) && !isDeleting(after))
      await target.client.delete(of, key, { signal: target.signal });
  }

  /** Objects that placements select are not known here before their placements are. */
  async #present(item: Item): Promise<KubeObject | undefined> {
    const known = this.#here.get(itemKey(item.of, item.key))?.object;
    return known === undefined ? this.#read(item) : inVersionOf(item, known);
  }

  async #read(item: Item): Promise<KubeObject | undefined> {
    const { client, signal } = this.#options.target;
    const found = await client.find(item.of, item.key, { signal });
    return found === undefined ? undefined : inVersionOf(item, found);
  }

  #wanted(item: Item): Wanted {
    const { of, key, object, content } = item;
    const base = { of, key, isDeleting: isDeleting(object) };
    if (content !== undefined) {
      const asWanted = (it: KubeObject): KubeObject => selectedObjectFor(it, cleaned(it));
      return { ...base, object: selectedObjectFor(object, content), asWanted };
    }
    const placement = placementOf(this.#there, item);
    const generations = placement === undefined ? undefined : this.#generations.get(placement);
    const asWanted = (it: KubeObject): KubeObject => bare(fleetObjectFor(it, this.#own, undefined));
    const wanted = remembered(bare(fleetObjectFor(object, this.#uids, generations)), object);
    return { ...base, object: this.#identified(item, wanted), asWanted };
  }

  #identified({ of, key }: Item, object: KubeObject): KubeObject {
    if (of.group !== MEMBER_CLUSTERS.group || of.kind !== MEMBER_CLUSTERS.kind) return object;
    const { spec } = object as KubeObject & { spec: { identity: Subject } };
    return {
      ...object,
      spec: { ...spec, identity: this.#options.identityOf(key, spec.identity) },
    } as KubeObject;
  }

  #copyStatus(item: Item, present: KubeObject): Promise<KubeObject> | KubeObject {
    const { of, object } = item;
    const own = this.#generations.get(item);
    if (!isFleetKind(of) || !of.hasStatus || !("status" in object) || own === undefined) return present;
    const placement = placementOf(this.#there, item);
    const generations = placement === undefined ? undefined : this.#generations.get(placement);
    const status = statusFor(object.status, own, generations);
    return writeStatus(this.#options.target, of, present, status);
  }

  async #untilServed({ of, key }: Item): Promise<void> {
    if (of.kind !== CUSTOM_RESOURCE_DEFINITIONS.kind) return;
    const { client, deps, signal } = this.#options.target;
    const until = (it: CustomResourceDefinition | undefined): boolean =>
      isConditionTrue(it?.status?.conditions, "Established");
    const message = (): string =>
      `CustomResourceDefinition ${key} is not established after ${SERVED_MS / 1000} s`;
    await waitFor(
      client,
      { of: CUSTOM_RESOURCE_DEFINITIONS, key, timeoutMs: SERVED_MS, until, message },
      deps,
      signal,
    );
  }

  /** What the hub that has the fleet has no longer. Namespaces of users may have other contents, unless they are placed. */
  async remove(items: readonly Item[]): Promise<void> {
    const gone = items.filter((it) => !this.#there.has(itemKey(it.of, it.key)));
    const removed = gone.filter(
      (it) => it.of.kind !== NAMESPACES.kind || it.isSelected || isOfFleet(it.object.metadata.name),
    );
    await inParallel(removed, CONCURRENCY, (it) => removeObject(this.#options.target, it));
    this.written += removed.filter((it) => !isRenewed(it)).length;
  }
}

function inVersionOf({ object: { apiVersion, kind } }: Item, known: KubeObject): KubeObject {
  return { ...known, apiVersion, kind } as KubeObject;
}

function isAged({ of }: Item): boolean {
  return AGED.has(of.kind);
}

function isRenewed({ of }: Item): boolean {
  return of.kind === LEASES.kind || of.kind === INTERNAL_MEMBER_CLUSTERS.kind;
}

/** Without what the API server writes into objects of its own kinds. */
function bare(object: KubeObject): KubeObject {
  const { metadata, apiVersion, kind } = object;
  if (kind === NAMESPACES.kind)
    return { apiVersion, kind, metadata: { ...metadata, finalizers: undefined } } as unknown as KubeObject;
  if (kind !== "ServiceAccount" || !("secrets" in object)) return object;
  const { secrets: _, ...rest } = object;
  return rest;
}
