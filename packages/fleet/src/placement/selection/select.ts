import { byText } from "@fairlead/base/text.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import type {
  ResourceIdentifier,
  ResourceSelector,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { fieldOf, selectedWithin, type SelectionInput, type SelectorProblem } from "./check.ts";
import type { Content, Selectable } from "./content.ts";
import { kindKey, type KindName } from "./kinds.ts";
import { isNamespace } from "./rules.ts";

/** The objects of one kind. */
export interface KindObjects {
  get(key: ObjectKey): Selectable | undefined;
  list(): Iterable<Selectable>;
  in(namespace: string): Iterable<Selectable>;
}
/** Undefined for a kind whose objects are not known at present. */
export type ObjectsView = (of: Resource) => KindObjects | undefined;

export interface SelectedObject {
  readonly id: ResourceIdentifier;
  readonly content: Content;
}
export interface Selection {
  /** In canonical order. */
  readonly objects: readonly SelectedObject[];
  /** Each of them prevents a snapshot. */
  readonly problems: readonly SelectorProblem[];
  /** Namespaces of which all objects are selected. */
  readonly namespaces: ReadonlySet<string>;
  /** Kinds that could not be read: `objects` lacks theirs. */
  readonly unread: readonly KindName[];
}

/**
 * Largest object, as it is placed: it has to fit into a Work as well, and etcd takes 1.5 MiB by default.
 * Unit: bytes.
 */
const MAX_OBJECT_BYTES = 1_415_578;
const SERVICE: KindName = { group: "", version: "v1", kind: "Service" };
const ENDPOINTS = "v1/Endpoints";

/** The kinds to read for the selectors. Those of groups that cannot be read are in `unknown`. */
export function neededKinds(input: SelectionInput): { kinds: Resource[]; unknown: KindName[] } {
  const { spec, kinds, rules } = input;
  const needed = new Map<string, Resource>();
  const unknown: KindName[] = [];
  const need = (of: Resource): void => {
    if (!rules.isKindPlaced(of)) return;
    needed.set(kindKey(of), of);
    const services = kindKey(of) === ENDPOINTS ? kinds.find(SERVICE) : undefined;
    if (services !== undefined) needed.set(kindKey(services), services);
  };
  for (const selector of spec.resourceSelectors) {
    const of = kinds.find(selector);
    if (of === undefined) unknown.push(selector);
    else need(of);
    if (selectsContent(selector)) for (const it of kinds.namespaced()) need(it);
  }
  return { kinds: [...needed.values()], unknown };
}

/** Whether a selector brings all objects of the namespaces that it selects. */
export function selectsContent(selector: ResourceSelector): boolean {
  return (
    isNamespace(selector) &&
    (selector.selectionScope ?? "NamespaceWithResources") === "NamespaceWithResources"
  );
}

/** What the selectors select of `view`. They were found valid by `checkSelectors`. */
export function select(input: SelectionInput, view: ObjectsView): Selection {
  const selecting = new Selecting(input, view);
  for (const [at, selector] of input.spec.resourceSelectors.entries()) selecting.evaluate(at, selector);
  return selecting.result();
}

class Selecting {
  readonly #input: SelectionInput;
  readonly #view: ObjectsView;
  /** By what identifies an object in any version: the selector that selected it. */
  readonly #found = new Map<string, { readonly object: SelectedObject; readonly at: number }>();
  readonly #problems: SelectorProblem[] = [];
  readonly #namespaces = new Set<string>();
  readonly #unread = new Map<string, KindName>();
  #content: readonly Resource[] | undefined;

  constructor(input: SelectionInput, view: ObjectsView) {
    this.#input = input;
    this.#view = view;
  }

  evaluate(at: number, selector: ResourceSelector): void {
    const of = this.#input.kinds.find(selector);
    if (of === undefined) {
      this.#unread.set(kindKey(selector), selector);
      return;
    }
    if (!this.#input.rules.isKindPlaced(of)) return;
    for (const it of this.#matches(of, selector)) {
      if (isNamespace(of)) this.#addNamespace(at, selector, it);
      else this.#add(at, of, it);
    }
  }

  result(): Selection {
    const objects = [...this.#found.entries()]
      .toSorted(([a], [b]) => byText(a, b))
      .map(([, it]) => it.object);
    return {
      objects,
      problems: this.#problems,
      namespaces: this.#namespaces,
      unread: [...this.#unread.values()],
    };
  }

  #read(of: Resource): KindObjects | undefined {
    const objects = this.#view(of);
    if (objects === undefined) this.#unread.set(kindKey(of), of);
    return objects;
  }

  #matches(of: Resource, selector: ResourceSelector): Iterable<Selectable> {
    const objects = this.#read(of);
    if (objects === undefined) return [];
    const { name = "", labelSelector } = selector;
    const within = of.namespaced ? selectedWithin(this.#input) : undefined;
    if (name !== "") {
      const found = objects.get(objectKey(within, name));
      return found === undefined ? [] : [found];
    }
    const all = within === undefined ? objects.list() : objects.in(within);
    if (labelSelector === undefined) return all;
    const matches = matcherOf(labelSelector);
    return [...all].filter((it) => matches(it.metadata.labels));
  }

  #addNamespace(at: number, selector: ResourceSelector, namespace: Selectable): void {
    const { name } = namespace.metadata;
    if (namespace.content === undefined || !this.#input.rules.isNamespacePlaced(name)) return;
    const of = this.#input.kinds.find(selector);
    if (of !== undefined) this.#add(at, of, namespace);
    if (!selectsContent(selector)) return;
    this.#namespaces.add(name);
    this.#content ??= this.#input.kinds.namespaced().filter((it) => this.#input.rules.isKindPlaced(it));
    for (const kind of this.#content)
      for (const it of this.#read(kind)?.in(name) ?? []) this.#add(at, kind, it);
  }

  #add(at: number, of: Resource, object: Selectable): void {
    const { content, metadata } = object;
    if (content === undefined || this.#isOfService(of, object)) return;
    const { name, namespace } = metadata;
    const id = identifierOf(of, metadata);
    const shown = `${of.kind} ${objectKey(namespace, name)}`;
    if (content.bytes > MAX_OBJECT_BYTES)
      this.#problems.push({
        field: fieldOf(at),
        message: `${shown} has ${content.bytes} bytes; an object that is placed has at most ${MAX_OBJECT_BYTES}`,
      });
    const key = orderKey(id);
    const before = this.#found.get(key);
    if (before === undefined) this.#found.set(key, { object: { id, content }, at });
    else
      this.#problems.push({
        field: fieldOf(at),
        message: `selects ${shown}, which ${fieldOf(before.at)} selects as well`,
      });
  }

  /** The API server's controllers make the Endpoints of a Service, in every cluster. */
  #isOfService(of: Resource, object: Selectable): boolean {
    if (kindKey(of) !== ENDPOINTS) return false;
    const services = this.#input.kinds.find(SERVICE);
    const { namespace, name } = object.metadata;
    return services !== undefined && this.#read(services)?.get(objectKey(namespace, name)) !== undefined;
  }
}

function identifierOf(of: KindName, { name, namespace }: KubeObject["metadata"]): ResourceIdentifier {
  return {
    ...(of.group === "" ? {} : { group: of.group }),
    version: of.version,
    kind: of.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
  };
}

/** Orders objects: what others need first, then by name. The version of an object does not count: it is one object in all of them. */
export function orderKey({ group = "", kind, namespace = "", name }: ResourceIdentifier): string {
  const isDefinition = group === "apiextensions.k8s.io" && kind === "CustomResourceDefinition";
  const rank = isNamespace({ group, kind }) ? 0 : isDefinition ? 1 : 2;
  return `${rank}\n${group}\n${kind}\n${namespace}\n${name}`;
}

/** Whether there may be objects that are selected and cannot be read at present. */
export function isIncomplete({ kinds }: SelectionInput, { unread, namespaces }: Selection): boolean {
  return unread.length > 0 || (namespaces.size > 0 && kinds.broken.size > 0);
}

/**
 * With the objects of an earlier snapshot whose kinds cannot be read at present: what is placed stays placed until the
 * API server says that it is gone.
 */
export function withPlacedBefore(
  input: SelectionInput,
  selection: Selection,
  earlier: readonly SelectedObject[],
): Selection {
  const unread = new Set(selection.unread.map(groupKind));
  const isUnread = ({ group = "", kind }: ResourceIdentifier): boolean =>
    unread.has(groupKind({ group, kind })) || input.kinds.isBroken(group);
  const present = new Map(selection.objects.map((it) => [orderKey(it.id), it]));
  for (const it of earlier) {
    const key = orderKey(it.id);
    if (!present.has(key) && isUnread(it.id) && couldSelect(input, selection, it.id)) present.set(key, it);
  }
  const objects = [...present.entries()].toSorted(([a], [b]) => byText(a, b)).map(([, it]) => it);
  return { ...selection, objects };
}

function groupKind({ group, kind }: Pick<KindName, "group" | "kind">): string {
  return `${group}/${kind}`;
}

/** Whether the selectors may select an object that is known by its name alone. */
function couldSelect(input: SelectionInput, selection: Selection, id: ResourceIdentifier): boolean {
  if (id.namespace !== undefined && selection.namespaces.has(id.namespace)) return true;
  if (id.namespace !== undefined && id.namespace !== selectedWithin(input)) return false;
  return input.spec.resourceSelectors.some(
    ({ group, kind, name = "" }) =>
      group === (id.group ?? "") && kind === id.kind && (name === "" || name === id.name),
  );
}

/** The identifier of an object that a snapshot holds. */
export function identifierIn({ apiVersion = "", kind = "", metadata }: KubeObject): ResourceIdentifier {
  const slash = apiVersion.indexOf("/");
  const group = slash < 0 ? "" : apiVersion.slice(0, slash);
  return identifierOf({ group, version: apiVersion.slice(slash + 1), kind }, metadata);
}
