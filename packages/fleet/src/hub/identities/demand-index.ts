import type { IdentityRequest, IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { wantsOf } from "#domain/identity-wants.ts";
import { jsonKey } from "@fairlead/base/json.ts";

type Rest = Omit<IdentityRequest, "clusters">;

/** Of which clusters a member requests something. */
interface Target {
  isOfAll: boolean;
  readonly clusters: Set<string>;
}

/** A request for pods, and the members that have it. */
interface Entry {
  readonly rest: Rest;
  readonly by: Map<string, Target>;
}

interface Request {
  readonly rest: Rest;
  readonly target: Target;
}

interface Demand {
  readonly requests: ReadonlyMap<string, Request>;
  readonly nodes: boolean;
}

const NOTHING: Demand = { requests: new Map(), nodes: false };

/**
 * What the members of a network need to know of each other. A change of one demand costs the requests of that demand that changed, and says
 * of which members it changes what is wanted. Pure.
 */
export class DemandIndex {
  readonly #demands = new Map<string, Demand>();
  readonly #entries = new Map<string, Entry>();

  /**
   * @param wants - Undefined: the member requests nothing.
   * @returns Whether something else is wanted of a cluster now.
   */
  set(member: string, wants: IdentityWants | undefined): (cluster: string) => boolean {
    const before = this.#demands.get(member) ?? NOTHING;
    const after = wants === undefined ? NOTHING : read(wants);
    if (wants === undefined) this.#demands.delete(member);
    else this.#demands.set(member, after);
    const keys = new Set([...before.requests.keys(), ...after.requests.keys()]);
    const changed = [...keys].flatMap(
      (key) => this.#change(key, member, before.requests.get(key), after.requests.get(key)) ?? [],
    );
    if (before.nodes !== after.nodes) changed.push((it) => !this.#areNodesWanted(it, member));
    return (cluster) => cluster !== member && changed.some((it) => it(cluster));
  }

  #change(
    key: string,
    member: string,
    was: Request | undefined,
    is: Request | undefined,
  ): ((cluster: string) => boolean) | undefined {
    const rest = (is ?? was)?.rest;
    if (rest === undefined || isSame(was?.target, is?.target)) return undefined;
    const entry = this.#put(key, rest, member, is?.target);
    return (it) => isMeant(was?.target, it) !== isMeant(is?.target, it) && !isWanted(entry, it, member);
  }

  #put(key: string, rest: Rest, member: string, target: Target | undefined): Entry {
    const entry = this.#entries.get(key) ?? { rest, by: new Map<string, Target>() };
    if (target === undefined) entry.by.delete(member);
    else entry.by.set(member, target);
    if (entry.by.size === 0) this.#entries.delete(key);
    else this.#entries.set(key, entry);
    return entry;
  }

  /** What other members need to know of one. */
  wantsOf(cluster: string): IdentityWants {
    const wanted = [...this.#entries.values()].filter((it) => isWanted(it, cluster));
    return wantsOf(
      wanted.map((it) => it.rest),
      this.#areNodesWanted(cluster),
    );
  }

  #areNodesWanted(cluster: string, except?: string): boolean {
    for (const [member, { nodes }] of this.#demands)
      if (nodes && member !== cluster && member !== except) return true;
    return false;
  }
}

function read({ requests, nodes = false }: IdentityWants): Demand {
  const found = new Map<string, Request>();
  for (const { clusters, ...rest } of requests) {
    const key = jsonKey(rest);
    const it = found.get(key) ?? { rest, target: { isOfAll: false, clusters: new Set<string>() } };
    found.set(key, it);
    if (clusters === undefined) it.target.isOfAll = true;
    else for (const cluster of clusters) it.target.clusters.add(cluster);
  }
  return { requests: found, nodes };
}

function isMeant(target: Target | undefined, cluster: string): boolean {
  return target !== undefined && (target.isOfAll || target.clusters.has(cluster));
}

function isSame(a: Target | undefined, b: Target | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.isOfAll === b.isOfAll && a.clusters.symmetricDifference(b.clusters).size === 0;
}

/** @param except - This one's request does not count. */
function isWanted({ by }: Entry, cluster: string, except?: string): boolean {
  for (const [member, target] of by)
    if (member !== cluster && member !== except && isMeant(target, cluster)) return true;
  return false;
}
