import { type NftChain, type NftSetSpec, type NftTable, sameHook } from "./state.ts";

/**
 * The wanted contents of a table, changed in place. It remembers what it changed, so that the steps towards the kernel cost what has
 * changed and not what there is.
 */
export class TableDraft {
  readonly #chains = new Map<string, NftChain>();
  readonly #sets = new Map<string, DraftSet>();
  #chainsBefore = new Map<string, NftChain | undefined>();
  #setsBefore = new Map<string, SetBefore>();

  /** All of it. */
  get whole(): NftTable {
    return { chains: this.#chains, sets: this.#sets };
  }

  /** Undefined removes it. */
  setChain(name: string, chain: NftChain | undefined): void {
    const before = this.#chains.get(name);
    if (sameChain(before, chain)) return;
    if (!this.#chainsBefore.has(name)) this.#chainsBefore.set(name, before);
    if (chain === undefined) this.#chains.delete(name);
    else this.#chains.set(name, chain);
  }

  /** Does nothing if the set is there. */
  addSet(name: string, spec: NftSetSpec): void {
    if (this.#sets.has(name)) return;
    if (!this.#setsBefore.has(name)) this.#setsBefore.set(name, { spec: undefined, elements: new Map() });
    this.#sets.set(name, { ...spec, elements: new Map() });
  }

  /** Removes a set with its elements. */
  removeSet(name: string): void {
    const set = this.#sets.get(name);
    if (set === undefined) return;
    for (const key of set.elements.keys()) this.setElement(name, key, undefined);
    this.#noteSet(name, set);
    this.#sets.delete(name);
  }

  /** Undefined removes it. The set has to be there. */
  setElement(name: string, key: string, value: string | undefined): void {
    const set = this.#sets.get(name);
    if (set === undefined) throw new TypeError(`the draft has no set ${name}`);
    const before = set.elements.get(key);
    if (before === value) return;
    const noted = this.#noteSet(name, set);
    if (!noted.elements.has(key)) noted.elements.set(key, before);
    if (value === undefined) set.elements.delete(key);
    else set.elements.set(key, value);
  }

  get isChanged(): boolean {
    return this.#chainsBefore.size > 0 || this.#setsBefore.size > 0;
  }

  /** The parts that were changed since the last call, as they were and as they are. */
  takeChanges(): { readonly before: NftTable; readonly after: NftTable } {
    const [chainsBefore, setsBefore] = [this.#chainsBefore, this.#setsBefore];
    this.#chainsBefore = new Map();
    this.#setsBefore = new Map();
    return {
      before: {
        chains: present([...chainsBefore]),
        sets: present(
          [...setsBefore].map(([name, { spec, elements }]) => [
            name,
            spec === undefined ? undefined : { ...spec, elements: present([...elements]) },
          ]),
        ),
      },
      after: {
        chains: present([...chainsBefore.keys()].map((name) => [name, this.#chains.get(name)])),
        sets: present([...setsBefore].map(([name, noted]) => [name, this.#changedPart(name, noted)])),
      },
    };
  }

  #changedPart(name: string, noted: SetBefore): DraftSet | undefined {
    const set = this.#sets.get(name);
    if (set === undefined) return undefined;
    const keys = [...noted.elements.keys()];
    return { ...set, elements: present(keys.map((key) => [key, set.elements.get(key)])) };
  }

  #noteSet(name: string, set: DraftSet): SetBefore {
    const noted = this.#setsBefore.get(name) ?? { spec: set, elements: new Map() };
    this.#setsBefore.set(name, noted);
    return noted;
  }
}

interface DraftSet extends NftSetSpec {
  readonly elements: Map<string, string>;
}

interface SetBefore {
  /** Undefined: it was not there. */
  readonly spec: NftSetSpec | undefined;
  /** Values, of changed elements only. */
  readonly elements: Map<string, string | undefined>;
}

function present<T>(entries: readonly (readonly [string, T | undefined])[]): Map<string, T> {
  return new Map(entries.flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const])));
}

function sameChain(a: NftChain | undefined, b: NftChain | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    sameHook(a.hook, b.hook) &&
    a.rules.length === b.rules.length &&
    a.rules.every((it, at) => it.digest === b.rules[at]?.digest)
  );
}
