import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { SetKey } from "../peers.ts";
import type { NamedPortElement, SetChange, SetElement } from "../state.ts";

type Element = IpAddress | NamedPortElement;

/** Collects the changes of sets; what is added and then removed is left out. */
export class Deltas {
  readonly #sets = new Map<
    SetKey,
    { readonly added: Map<string, Element>; readonly removed: Map<string, Element> }
  >();

  add(key: SetKey, element: Element): void {
    this.#note(key, element, "added", "removed");
  }

  remove(key: SetKey, element: Element): void {
    this.#note(key, element, "removed", "added");
  }

  /** The set is new or gone, so that its changes do not matter. */
  forget(key: SetKey): void {
    this.#sets.delete(key);
  }

  drain(): readonly SetChange[] {
    const changes = [...this.#sets].map(([key, { added, removed }]) =>
      changed(key, [...added.values()], [...removed.values()]),
    );
    this.#sets.clear();
    return changes.filter((it) => it.added.length + it.removed.length > 0);
  }

  #note(key: SetKey, element: Element, to: "added" | "removed", from: "added" | "removed"): void {
    let delta = this.#sets.get(key);
    if (delta === undefined) this.#sets.set(key, (delta = { added: new Map(), removed: new Map() }));
    const id =
      typeof element === "object" ? `${element.address}#${element.port}` : `${typeof element}${element}`;
    if (!delta[from].delete(id)) delta[to].set(id, element);
  }
}

function changed(key: SetKey, added: readonly SetElement[], removed: readonly SetElement[]): SetChange {
  return { key, state: "changed", added, removed };
}
