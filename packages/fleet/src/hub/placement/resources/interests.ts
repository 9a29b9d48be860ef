import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Labels, Matcher } from "@fairlead/kube/objects/selector.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import type { Change } from "@fairlead/kube/types.ts";
import type { ResourceSelector } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type SelectionInput, selectedWithin } from "#placement/selection/check.ts";
import type { Selectable } from "#placement/selection/content.ts";
import { kindKey } from "#placement/selection/kinds.ts";
import { selectsContent } from "#placement/selection/select.ts";

const SERVICE_KEY = "v1/Service";
/** In the place of a kind: all objects of a namespace. */
const CONTENT = "*";
const ENDPOINTS_KEY = "v1/Endpoints";

/** Which placements a change of an object may concern, without looking at those that it cannot. */
export class Interests {
  /** By kind and key of the object: selectors by name. */
  readonly #named = new Map<string, Set<ObjectKey>>();
  /** By kind and namespace: selectors by labels, or of all. */
  readonly #general = new Map<string, Map<ObjectKey, Matcher[]>>();
  /** What to undo, by placement. */
  readonly #undo = new Map<ObjectKey, (() => void)[]>();

  /** Of valid selectors. */
  set(placement: ObjectKey, input: SelectionInput): void {
    this.delete(placement);
    for (const selector of input.spec.resourceSelectors) this.#add(placement, input, selector);
  }

  delete(placement: ObjectKey): void {
    for (const undo of this.#undo.get(placement) ?? []) undo();
    this.#undo.delete(placement);
  }

  /** @param labelsOf - The labels of a namespace; undefined if it does not exist. */
  affected(
    of: Resource,
    { key, before, after }: Change<Selectable>,
    labelsOf: (namespace: string) => Labels,
  ): Set<ObjectKey> {
    const found = new Set<ObjectKey>();
    const kind = kindKey(of);
    const { namespace } = splitKey(key);
    const states = [before, after].flatMap((it) => (it === undefined ? [] : [it.metadata.labels]));
    this.#collect(found, { kind, key, namespace, states });
    // Whether Endpoints are placed depends on the Service of their name.
    if (kind === SERVICE_KEY)
      this.#collect(found, { kind: ENDPOINTS_KEY, key, namespace, states: undefined });
    if (namespace !== undefined)
      this.#collect(found, {
        kind: CONTENT,
        key: objectKey(undefined, namespace),
        namespace: undefined,
        states: [labelsOf(namespace)],
      });
    return found;
  }

  #collect(
    found: Set<ObjectKey>,
    at: {
      readonly kind: string;
      readonly key: ObjectKey;
      readonly namespace: string | undefined;
      /** Undefined: labels do not matter. */
      readonly states: readonly Labels[] | undefined;
    },
  ): void {
    for (const it of this.#named.get(`${at.kind} ${at.key}`) ?? []) found.add(it);
    for (const [it, matchers] of this.#general.get(`${at.kind} ${at.namespace ?? ""}`) ?? [])
      if (matchers.some((matches) => at.states?.some(matches) ?? true)) found.add(it);
  }

  #add(placement: ObjectKey, input: SelectionInput, selector: ResourceSelector): void {
    const of = input.kinds.find(selector);
    if (of === undefined) return;
    const kind = kindKey(of);
    const within = of.namespaced ? selectedWithin(input) : undefined;
    const { name = "", labelSelector } = selector;
    const kinds = selectsContent(selector) ? [kind, CONTENT] : [kind];
    for (const it of kinds) {
      if (name !== "") this.#addNamed(placement, `${it} ${objectKey(within, name)}`);
      else
        this.#addGeneral(
          placement,
          `${it} ${within ?? ""}`,
          labelSelector === undefined ? () => true : matcherOf(labelSelector),
        );
    }
  }

  #addNamed(placement: ObjectKey, at: string): void {
    const set = this.#named.get(at) ?? new Set();
    this.#named.set(at, set.add(placement));
    this.#onDelete(placement, () => {
      set.delete(placement);
      if (set.size === 0) this.#named.delete(at);
    });
  }

  #addGeneral(placement: ObjectKey, at: string, matches: Matcher): void {
    const map = this.#general.get(at) ?? new Map<ObjectKey, Matcher[]>();
    this.#general.set(at, map);
    map.set(placement, [...(map.get(placement) ?? []), matches]);
    this.#onDelete(placement, () => {
      map.delete(placement);
      if (map.size === 0) this.#general.delete(at);
    });
  }

  #onDelete(placement: ObjectKey, undo: () => void): void {
    this.#undo.set(placement, [...(this.#undo.get(placement) ?? []), undo]);
  }
}
