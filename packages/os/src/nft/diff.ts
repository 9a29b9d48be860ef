import {
  type NftChain,
  type NftHook,
  type NftSet,
  type NftSetSpec,
  type NftTable,
  sameHook,
  sameSetSpec,
} from "./state.ts";
import type { NftRule } from "./rule.ts";

/**
 * One step of a transaction on one table. Strict: adding what exists and deleting what does not are errors, so that a
 * wrong record of the kernel's state is detected by the first transaction that meets the difference.
 */
export type NftOp =
  | { readonly verb: "add-table" | "delete-table" }
  | { readonly verb: "add-set"; readonly set: string; readonly spec: NftSetSpec }
  | { readonly verb: "delete-set"; readonly set: string }
  | { readonly verb: "add-chain"; readonly chain: string; readonly hook: NftHook | undefined }
  | { readonly verb: "delete-chain"; readonly chain: string }
  | { readonly verb: "replace-rules"; readonly chain: string; readonly rules: readonly NftRule[] }
  | NftElementOp;

/** The steps of the hot path: nothing else changes when endpoints do. */
export type NftElementOp =
  | {
      readonly verb: "add-elements";
      readonly set: string;
      readonly spec: NftSetSpec;
      readonly elements: readonly (readonly [key: string, value: string])[];
    }
  | {
      readonly verb: "delete-elements";
      readonly set: string;
      readonly spec: NftSetSpec;
      readonly keys: readonly string[];
    };

/**
 * The smallest list of steps from `actual` to `desired` (undefined: no such table), in an order that the kernel
 * accepts: a referenced object is added before the reference, and deleted after it.
 *
 * A changed value of a map is a delete and an add: nftables has no update of an element. A set or base chain whose kind
 * changes means a new table: nothing that refers to it could stay. A new table takes the old one's place within one
 * transaction; flows that conntrack knows do not notice.
 */
export function diffTable(actual: NftTable | undefined, desired: NftTable | undefined): readonly NftOp[] {
  if (desired === undefined) return actual === undefined ? [] : [{ verb: "delete-table" }];
  if (actual === undefined) return [{ verb: "add-table" }, ...diffContents(EMPTY, desired)];
  if (needsNewTable(actual, desired))
    return [{ verb: "delete-table" }, { verb: "add-table" }, ...diffContents(EMPTY, desired)];
  return diffContents(actual, desired);
}

const EMPTY: NftTable = { chains: new Map(), sets: new Map() };
const NO_ELEMENTS: ReadonlyMap<string, string> = new Map();

function needsNewTable(actual: NftTable, desired: NftTable): boolean {
  for (const [name, set] of desired.sets) {
    const have = actual.sets.get(name);
    if (have !== undefined && !sameSetSpec(have, set)) return true;
  }
  for (const [name, chain] of desired.chains) {
    const have = actual.chains.get(name);
    if (have !== undefined && !sameHook(have.hook, chain.hook)) return true;
  }
  return refusesRules(actual) && addsRules(actual, desired);
}

/**
 * nft 1.0.6 refuses rules that are added after a set declared with `typeof ... th dport`, in any chain
 * ("conflicting protocols specified: ip vs. th"). It accepts them in the transaction that creates the set.
 */
function refusesRules(actual: NftTable): boolean {
  return [...actual.sets.values()].some((set) => set.key.includes("integer"));
}

function addsRules(actual: NftTable, desired: NftTable): boolean {
  return [...desired.chains].some(
    ([name, { rules }]) => rules.length > 0 && !sameRules(actual.chains.get(name), rules),
  );
}

function diffContents(actual: NftTable, desired: NftTable): readonly NftOp[] {
  const staleChains = [...actual.chains.keys()].filter((it) => !desired.chains.has(it));
  const staleSets = [...actual.sets.keys()].filter((it) => !desired.sets.has(it));
  const { deletes, adds } = diffSets(actual, desired);
  return [
    ...addMissing(actual, desired),
    ...staleChains.map((chain): NftOp => ({ verb: "replace-rules", chain, rules: [] })),
    // Rules that release stale chains and sets come before the deletions; they may refer to what was added above.
    ...[...desired.chains]
      .filter(([chain, { rules }]) => !sameRules(actual.chains.get(chain), rules))
      .map(([chain, { rules }]): NftOp => ({ verb: "replace-rules", chain, rules })),
    ...deletes,
    ...staleSets.map((set): NftOp => ({ verb: "delete-set", set })),
    ...staleChains.map((chain): NftOp => ({ verb: "delete-chain", chain })),
    ...adds,
  ];
}

function addMissing(actual: NftTable, desired: NftTable): readonly NftOp[] {
  return [
    ...[...desired.sets]
      .filter(([set]) => !actual.sets.has(set))
      .map(([set, spec]): NftOp => ({ verb: "add-set", set, spec: specOf(spec) })),
    ...[...desired.chains]
      .filter(([chain]) => !actual.chains.has(chain))
      .map(([chain, { hook }]): NftOp => ({ verb: "add-chain", chain, hook })),
  ];
}

/** Changes of elements in the sets that are to be there. */
function diffSets(
  actual: NftTable,
  desired: NftTable,
): { readonly deletes: readonly NftElementOp[]; readonly adds: readonly NftElementOp[] } {
  const deletes: NftElementOp[] = [];
  const adds: NftElementOp[] = [];
  for (const [set, want] of desired.sets) {
    if (want.dynamic === true) continue;
    const { removed, fresh } = diffElements(actual.sets.get(set)?.elements ?? NO_ELEMENTS, want.elements);
    const spec = specOf(want);
    if (removed.length > 0) deletes.push({ verb: "delete-elements", set, spec, keys: removed });
    if (fresh.length > 0) adds.push({ verb: "add-elements", set, spec, elements: fresh });
  }
  return { deletes, adds };
}

/** The elements to delete and to add. A changed value is in both. */
function diffElements(
  have: ReadonlyMap<string, string>,
  want: ReadonlyMap<string, string>,
): { readonly removed: readonly string[]; readonly fresh: readonly (readonly [string, string])[] } {
  const removed: string[] = [];
  const fresh: (readonly [string, string])[] = [];
  for (const [key, value] of have) if (want.get(key) !== value) removed.push(key);
  for (const entry of want) if (have.get(entry[0]) !== entry[1]) fresh.push(entry);
  return { removed, fresh };
}

function sameRules(actual: NftChain | undefined, rules: readonly NftRule[]): boolean {
  const have = actual?.rules ?? [];
  return have.length === rules.length && have.every((it, at) => it.digest === rules[at]?.digest);
}

/** A set without its elements. */
function specOf(set: NftSetSpec | NftSet): NftSetSpec {
  return {
    key: set.key,
    ...(set.value === undefined ? {} : { value: set.value }),
    ...(set.interval === true ? { interval: true } : {}),
    ...(set.dynamic === true ? { dynamic: true } : {}),
  };
}
