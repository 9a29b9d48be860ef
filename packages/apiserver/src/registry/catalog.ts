import { byText } from "@fairlead/base/text.ts";
import type { ResourceDefinition, ReviewDefinition } from "./types.ts";

/** One version of a group, with what it serves. */
export interface ServedVersion {
  readonly version: string;
  readonly resources: readonly ResourceDefinition[];
  readonly reviews: readonly ReviewDefinition[];
}

export interface ServedGroup {
  readonly group: string;
  /** Best first: what clients prefer. */
  readonly versions: readonly ServedVersion[];
}

/** Identity of a stored resource: "plural.group", or "plural" in the core group. */
export function tableId(of: Pick<ResourceDefinition, "group" | "plural" | "storedAs">): string {
  const { group, plural } = of.storedAs ?? of;
  return group === "" ? plural : `${plural}.${group}`;
}

/** Everything the server serves at this moment; custom resources come and go. */
export class Catalog {
  readonly #resources = new Map<string, ResourceDefinition>();
  readonly #reviews = new Map<string, ReviewDefinition>();
  readonly #byKind = new Map<string, Set<ResourceDefinition>>();
  readonly #byTable = new Map<string, Set<ResourceDefinition>>();
  #generation = 0;
  #groups: readonly ServedGroup[] | undefined;
  readonly #equivalents = new Map<ResourceDefinition, readonly ResourceDefinition[]>();

  constructor(resources: Iterable<ResourceDefinition>, reviews: Iterable<ReviewDefinition>) {
    for (const it of resources) this.add(it);
    for (const it of reviews)
      this.#reviews.set(pathOf(it.group, it.version, reviewPath(it.parent, it.plural)), it);
  }

  /** Rises with every change: what was derived from an older one is stale. */
  get generation(): number {
    return this.#generation;
  }

  add(definition: ResourceDefinition): void {
    const path = pathOf(definition.group, definition.version, definition.plural);
    const present = this.#resources.get(path);
    if (present !== undefined) this.remove(present);
    this.#resources.set(path, definition);
    addTo(this.#byKind, `${definition.group}/${definition.kind}`, definition);
    addTo(this.#byTable, tableId(definition), definition);
    this.#changed();
  }

  remove(definition: ResourceDefinition): void {
    const path = pathOf(definition.group, definition.version, definition.plural);
    if (this.#resources.get(path) !== definition) return;
    this.#resources.delete(path);
    this.#byKind.get(`${definition.group}/${definition.kind}`)?.delete(definition);
    this.#byTable.get(tableId(definition))?.delete(definition);
    this.#changed();
  }

  #changed(): void {
    this.#generation += 1;
    this.#groups = undefined;
    this.#equivalents.clear();
  }

  resource(group: string, version: string, plural: string): ResourceDefinition | undefined {
    return this.#resources.get(pathOf(group, version, plural));
  }

  review(group: string, version: string, plural: string, parent?: string): ReviewDefinition | undefined {
    return this.#reviews.get(pathOf(group, version, reviewPath(parent, plural)));
  }

  reviewsOf(group: string, version: string): readonly ReviewDefinition[] {
    return [...this.#reviews.values()].filter((it) => it.group === group && it.version === version);
  }

  /** Any version of a kind: owner references name kinds, not plurals. */
  ofKind(group: string, kind: string): ResourceDefinition | undefined {
    return first(this.#byKind.get(`${group}/${kind}`));
  }

  /** A definition that reads the objects of a table. */
  ofTable(id: string): ResourceDefinition | undefined {
    return first(this.#byTable.get(id));
  }

  /** Other groups and versions in which the same objects are served. */
  equivalentsOf(definition: ResourceDefinition): readonly ResourceDefinition[] {
    const known = this.#equivalents.get(definition);
    if (known !== undefined) return known;
    const found = [...(this.#byTable.get(tableId(definition)) ?? [])].filter((it) => it !== definition);
    this.#equivalents.set(definition, found);
    return found;
  }

  all(): Iterable<ResourceDefinition> {
    return this.#resources.values();
  }

  /** The built-in groups in the order of a real server, then those of CRDs by name. */
  groups(): readonly ServedGroup[] {
    this.#groups ??= this.#collectGroups();
    return this.#groups;
  }

  #collectGroups(): readonly ServedGroup[] {
    const versions = new Map<
      string,
      Map<string, { resources: ResourceDefinition[]; reviews: ReviewDefinition[] }>
    >();
    const versionOf = (group: string, version: string) => {
      const ofGroup =
        versions.get(group) ??
        new Map<string, { resources: ResourceDefinition[]; reviews: ReviewDefinition[] }>();
      versions.set(group, ofGroup);
      const served = ofGroup.get(version) ?? { resources: [], reviews: [] };
      ofGroup.set(version, served);
      return served;
    };
    for (const it of this.#resources.values()) versionOf(it.group, it.version).resources.push(it);
    for (const it of this.#reviews.values()) versionOf(it.group, it.version).reviews.push(it);
    return [...versions]
      .toSorted(([a], [b]) => rankGroup(a) - rankGroup(b) || byText(a, b))
      .map(([group, ofGroup]) => ({
        group,
        versions: [...ofGroup]
          .toSorted(([a], [b]) => byVersion(a, b))
          .map(([version, served]) => ({
            version,
            resources: served.resources.toSorted((a, b) => byText(a.plural, b.plural)),
            reviews: served.reviews.toSorted((a, b) => byText(a.plural, b.plural)),
          })),
      }));
  }
}

function first<T>(set: Set<T> | undefined): T | undefined {
  return set?.values().next().value;
}

function addTo<T>(index: Map<string, Set<T>>, key: string, value: T): void {
  const members = index.get(key);
  if (members === undefined) index.set(key, new Set([value]));
  else members.add(value);
}

function pathOf(group: string, version: string, plural: string): string {
  return `${group}/${version}/${plural}`;
}

function reviewPath(parent: string | undefined, plural: string): string {
  return parent === undefined ? plural : `${parent}/${plural}`;
}

/**
 * Built-in groups in the order in which a real server lists them: where several groups have a resource of one name, kubectl takes the
 * first. Source: k8s.io/kubernetes, pkg/controlplane/apiserver, `DefaultGenericAPIServicePriorities`, and what 1.36 answers.
 */
const GROUPS: readonly string[] = [
  "",
  "apiregistration.k8s.io",
  "apps",
  "events.k8s.io",
  "authentication.k8s.io",
  "authorization.k8s.io",
  "autoscaling",
  "batch",
  "certificates.k8s.io",
  "networking.k8s.io",
  "policy",
  "rbac.authorization.k8s.io",
  "storage.k8s.io",
  "admissionregistration.k8s.io",
  "apiextensions.k8s.io",
  "scheduling.k8s.io",
  "coordination.k8s.io",
  "node.k8s.io",
  "discovery.k8s.io",
  "resource.k8s.io",
  "flowcontrol.apiserver.k8s.io",
];

function rankGroup(group: string): number {
  const at = GROUPS.indexOf(group);
  return at < 0 ? GROUPS.length : at;
}

const STAGES = ["alpha", "beta"];

/**
 * Orders versions best first: GA before beta before alpha, higher numbers first, other names last.
 * Source: apimachinery, pkg/version/helpers.go.
 */
export function byVersion(a: string, b: string): number {
  const [left, right] = [rankVersion(a), rankVersion(b)];
  if (left === undefined || right === undefined) {
    if (left === right) return byText(a, b);
    return left === undefined ? 1 : -1;
  }
  const at = left.findIndex((it, index) => it !== right[index]);
  return at < 0 ? 0 : (right[at] ?? 0) - (left[at] ?? 0);
}

/** [stage, major, minor]; the stage of GA is above beta and alpha. */
function rankVersion(version: string): readonly number[] | undefined {
  const match = /^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$/.exec(version);
  if (match === null) return undefined;
  const stage = match[2] === undefined ? STAGES.length : STAGES.indexOf(match[2]);
  return [stage, Number(match[1]), Number(match[3] ?? 0)];
}
