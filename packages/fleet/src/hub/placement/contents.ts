import { byNaturalText } from "@fairlead/base/text.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { CallOptions, KubeClient } from "@fairlead/kube/types.ts";
import {
  NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION,
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
  SUBINDEX_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { selectingKeys } from "#placement/overrides/apply.ts";
import { isMaster } from "#placement/snapshots/resources.ts";
import type { SnapshotPart } from "#placement/works/plan.ts";
import { OF_PLACEMENT, placementOf, type ScopeInformers } from "./informers.ts";

/** A resource snapshot with all its parts, as the informers have them: without the resources. */
export interface SnapshotGroup {
  readonly index: string;
  /** The first part is the one that bindings name. */
  readonly parts: readonly ResourceSnapshot[];
  /** Says whether two groups have the same contents. */
  readonly hash: string;
}

export interface SnapshotContents {
  readonly parts: readonly SnapshotPart[];
  /** Keys of the selectors of overrides that select one of the resources. */
  readonly selecting: () => ReadonlySet<string>;
}

/** The snapshot that a binding names; undefined while it, or one of its parts, is not there. */
export function findSnapshot(
  { resourceSnapshots }: ScopeInformers,
  namespace: string | undefined,
  name: string,
): SnapshotGroup | undefined {
  const first = resourceSnapshots.store.get(objectKey(namespace, name));
  if (first === undefined) return undefined;
  const index = first.metadata.labels?.[RESOURCE_INDEX_LABEL] ?? "";
  const others = [...resourceSnapshots.store.byIndex(OF_PLACEMENT, placementOf(first))].filter(
    (it) =>
      it !== first &&
      it.metadata.labels?.[RESOURCE_INDEX_LABEL] === index &&
      it.metadata.annotations?.[SUBINDEX_ANNOTATION] !== undefined,
  );
  const { annotations = {}, uid = "" } = first.metadata;
  const count = Number(annotations[NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION] ?? "1");
  if (others.length + 1 < count) return undefined;
  const parts = [first, ...inOrder(others)];
  return { index, parts, hash: annotations[RESOURCE_HASH_ANNOTATION] ?? uid };
}

function inOrder(parts: readonly ResourceSnapshot[]): readonly ResourceSnapshot[] {
  return parts.toSorted((a, b) => byNaturalText(a.metadata.name, b.metadata.name));
}

function cacheKey({ name }: ScopeInformers["scope"], parts: readonly ResourceSnapshot[]): string {
  return `${name} ${parts.map((it) => it.metadata.uid ?? keyOf(it)).join(" ")}`;
}

/** @param snapshots - The first part first. */
function contentsOf(snapshots: readonly ResourceSnapshot[]): SnapshotContents {
  const parts = snapshots.map(({ metadata, spec }, at) => ({
    name: metadata.name,
    subindex: at === 0 ? undefined : metadata.annotations?.[SUBINDEX_ANNOTATION],
    resources: spec.selectedResources ?? [],
  }));
  let keys: ReadonlySet<string> | undefined;
  const selecting = (): ReadonlySet<string> =>
    (keys ??= new Set(parts.flatMap((it) => it.resources).flatMap(selectingKeys)));
  return { parts, selecting };
}

interface Entry {
  readonly contents: Promise<SnapshotContents>;
  /** Unit: characters of JSON; 0 while it is being read. */
  length: number;
}

/** What snapshots are kept for later readers. Unit: characters of JSON. */
const MAX_KEPT = 64 * 1024 * 1024;

/**
 * Contents of snapshots, read once for all clusters that get them: a snapshot never changes. What was used last stays, up to a
 * bound.
 */
export class ContentsCache {
  readonly #client: KubeClient;
  readonly #maxKept: number;
  /** In order of their last use. */
  readonly #entries = new Map<string, Entry>();
  #kept = 0;

  constructor(client: KubeClient, maxKept = MAX_KEPT) {
    this.#client = client;
    this.#maxKept = maxKept;
  }

  /** @throws {FleetError} `API_NOT_FOUND` if a part was deleted in the meantime. */
  read({ scope }: ScopeInformers, { parts }: SnapshotGroup, options: CallOptions): Promise<SnapshotContents> {
    const key = cacheKey(scope, parts);
    const present = this.#entries.get(key);
    if (present !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, present);
      return present.contents;
    }
    return this.#add(key, this.#load(scope.resourceSnapshots, parts, options));
  }

  /** A snapshot was made: what the server returned need not be read. @param parts - In any order. */
  note({ scope }: ScopeInformers, parts: readonly ResourceSnapshot[]): void {
    const ordered = [...parts.filter(isMaster), ...inOrder(parts.filter((it) => !isMaster(it)))];
    void this.#add(cacheKey(scope, ordered), Promise.resolve(contentsOf(ordered)));
  }

  #add(key: string, contents: Promise<SnapshotContents>): Promise<SnapshotContents> {
    const entry: Entry = { contents, length: 0 };
    this.#entries.set(key, entry);
    contents.then(
      (it) => this.#keep(entry, it),
      () => this.#entries.delete(key),
    );
    return contents;
  }

  async #load(
    of: ScopeInformers["scope"]["resourceSnapshots"],
    parts: readonly ResourceSnapshot[],
    options: CallOptions,
  ): Promise<SnapshotContents> {
    return contentsOf(await Promise.all(parts.map((it) => this.#client.get(of, keyOf(it), options))));
  }

  #keep(entry: Entry, { parts }: SnapshotContents): void {
    entry.length = parts.reduce((sum, it) => sum + JSON.stringify(it.resources).length, 0);
    this.#kept += entry.length;
    for (const [key, oldest] of this.#entries) {
      if (this.#kept <= this.#maxKept) return;
      this.#kept -= oldest.length;
      if (oldest.length > 0) this.#entries.delete(key);
    }
  }
}
