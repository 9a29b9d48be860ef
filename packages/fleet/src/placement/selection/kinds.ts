import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";

/** What discovery says of the kinds that an API server serves. */

export interface ServedVersion {
  readonly version: string;
  /** That can be read and watched, without subresources. */
  readonly kinds: readonly Resource[];
}
export interface ServedGroup {
  readonly group: string;
  /** The preferred one first. */
  readonly versions: readonly ServedVersion[];
  /** Why the group cannot be read at present; `versions` then holds what is known of it from before. */
  readonly problem?: string;
}
/** A kind as selectors and manifests name it. */
export type KindName = Pick<Resource, "group" | "version" | "kind">;

export class KindTable {
  readonly groups: readonly ServedGroup[];
  readonly #byName = new Map<string, Resource>();
  readonly #broken: ReadonlySet<string>;

  constructor(groups: readonly ServedGroup[]) {
    this.groups = groups;
    this.#broken = new Set(groups.flatMap((it) => (it.problem === undefined ? [] : [it.group])));
    for (const { versions } of groups)
      for (const { kinds } of versions) for (const it of kinds) this.#byName.set(kindKey(it), it);
  }

  find(name: KindName): Resource | undefined {
    return this.#byName.get(kindKey(name));
  }

  /** Whether what this table says of a group may be incomplete. */
  isBroken(group: string): boolean {
    return this.#broken.has(group);
  }

  /** Groups that cannot be read at present. */
  get broken(): ReadonlySet<string> {
    return this.#broken;
  }

  /** Each namespaced kind once, in the version that its group prefers among those that have it. */
  namespaced(): Resource[] {
    return this.groups.flatMap(({ versions }) => {
      const found = new Map<string, Resource>();
      for (const { kinds } of versions)
        for (const it of kinds) if (it.namespaced && !found.has(it.kind)) found.set(it.kind, it);
      return [...found.values()];
    });
  }
}

/** "group/version/Kind", or "version/Kind" in the core group. */
export function kindKey(of: KindName): string {
  return `${apiVersionOf(of)}/${of.kind}`;
}
