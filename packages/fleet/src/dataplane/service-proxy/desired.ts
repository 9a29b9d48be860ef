import { byText } from "@fairlead/base/text.ts";
import type { PlannedElement } from "./plan.ts";

/** Set to key to value: what the kernel is to hold. */
export type Elements = ReadonlyMap<string, ReadonlyMap<string, string>>;
/** Set to keys. */
export type Keys = ReadonlyMap<string, ReadonlySet<string>>;

interface Claim {
  readonly owner: string;
  readonly value: string;
}

/**
 * What all owners together want, kept so that a change of one owner costs what that owner has.
 *
 * Several owners may want one element: an endpoint serves several Services, and two Services may be given one load
 * balancer address, even one port. The value of the owner whose name sorts first is used. Owners are compared by name
 * alone, so every node decides the same.
 */
export class DesiredElements {
  readonly #elements = new Map<string, Map<string, string>>();
  /** Elements that more than one owner wants, with all claims in order. */
  readonly #contested = new Map<string, Claim[]>();
  readonly #owners = new Map<string, string>();
  readonly #byOwner = new Map<string, readonly PlannedElement[]>();
  #changed = new Map<string, Set<string>>();

  get elements(): Elements {
    return this.#elements;
  }

  /** Replaces all that `owner` wants. */
  set(owner: string, elements: readonly PlannedElement[]): void {
    const previous = this.#byOwner.get(owner) ?? [];
    const kept = new Map(elements.map((it) => [idOf(it), it]));
    for (const element of previous)
      if (kept.get(idOf(element))?.value !== element.value) this.#release(owner, element);
    const had = new Map(previous.map((it) => [idOf(it), it.value]));
    for (const element of kept.values())
      if (had.get(idOf(element)) !== element.value) this.#claim(owner, element);
    if (kept.size === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, [...kept.values()]);
  }

  /** Keys whose value may have changed since the last call. */
  takeChanged(): Keys {
    const changed = this.#changed;
    this.#changed = new Map();
    return changed;
  }

  #claim(owner: string, element: PlannedElement): void {
    const id = idOf(element);
    const holder = this.#owners.get(id);
    if (holder === undefined) {
      this.#owners.set(id, owner);
      this.#write(element, element.value);
      return;
    }
    const claims = this.#contested.get(id) ?? [{ owner: holder, value: this.#read(element) }];
    this.#settle(element, [...claims, { owner, value: element.value }]);
  }

  #release(owner: string, element: PlannedElement): void {
    const id = idOf(element);
    const claims = this.#contested.get(id);
    if (claims !== undefined) {
      this.#settle(
        element,
        claims.filter((it) => it.owner !== owner),
      );
      return;
    }
    this.#owners.delete(id);
    this.#write(element, undefined);
  }

  /** Uses the first of several claims, or the only one that is left. */
  #settle(element: PlannedElement, claims: readonly Claim[]): void {
    const id = idOf(element);
    const ordered = claims.toSorted((a, b) => byText(a.owner, b.owner));
    const [first] = ordered;
    if (first === undefined) return;
    this.#owners.set(id, first.owner);
    if (ordered.length > 1) this.#contested.set(id, ordered);
    else this.#contested.delete(id);
    if (this.#read(element) !== first.value) this.#write(element, first.value);
  }

  #read(element: PlannedElement): string {
    return this.#elements.get(element.set)?.get(element.key) ?? "";
  }

  #write({ set, key }: PlannedElement, value: string | undefined): void {
    let values = this.#elements.get(set);
    if (values === undefined) this.#elements.set(set, (values = new Map<string, string>()));
    if (value === undefined) values.delete(key);
    else values.set(key, value);
    let keys = this.#changed.get(set);
    if (keys === undefined) this.#changed.set(set, (keys = new Set()));
    keys.add(key);
  }
}

function idOf(element: PlannedElement): string {
  return `${element.set}|${element.key}`;
}
