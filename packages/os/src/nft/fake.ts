import { FleetError } from "@fairlead/base/errors.ts";
import type { NftElementOp, NftOp } from "./diff.ts";
import type { NftDriver } from "./driver.ts";
import { checkElement, splitVerdict } from "./element.ts";
import type { NftChain, NftSet, NftTable, NftTableName } from "./state.ts";

/** nftables in memory, as strict as the kernel about missing, existing and referenced objects. */
export interface FakeNft extends NftDriver {
  /** How many transactions there were, and of how many steps. */
  readonly transactions: readonly (readonly NftOp[])[];
  /** Makes the next `apply` fail without effect. */
  failNext(error: Error): void;
  /** Changes the kernel's state behind the caller's back. */
  tamper(table: NftTableName, change: (table: NftTable | undefined) => NftTable | undefined): void;
}

export function createFakeNft(): FakeNft {
  const tables = new Map<string, NftTable>();
  const transactions: (readonly NftOp[])[] = [];
  let failure: Error | undefined;
  return {
    transactions,
    failNext(error) {
      failure = error;
    },
    tamper(table, change) {
      store(tables, table, change(tables.get(nameOf(table))));
    },
    read: async (table) => tables.get(nameOf(table)),
    readMap: async (table, set) =>
      tables.get(nameOf(table))?.sets.get(set)?.elements ?? new Map<string, string>(),
    readCounters: async () => new Map(),
    async apply(table, ops) {
      if (ops.length === 0) return;
      const fails = failure;
      failure = undefined;
      if (fails !== undefined) throw fails;
      let state = tables.get(nameOf(table));
      for (const op of ops) state = applyOp(state, op);
      store(tables, table, state);
      transactions.push(ops);
    },
    [Symbol.dispose]() {},
  };
}

function store(tables: Map<string, NftTable>, table: NftTableName, state: NftTable | undefined): void {
  if (state === undefined) tables.delete(nameOf(table));
  else tables.set(nameOf(table), state);
}

function nameOf(table: NftTableName): string {
  return `${table.family} ${table.name}`;
}

/** The state after one step. Pure. */
function applyOp(state: NftTable | undefined, op: NftOp): NftTable | undefined {
  switch (op.verb) {
    case "add-table":
      if (state !== undefined) throw exists("table");
      return { chains: new Map(), sets: new Map() };
    case "delete-table":
      if (state === undefined) throw notFound("table");
      return undefined;
    default:
      if (state === undefined) throw notFound("table");
      return changeTable(state, op);
  }
}

function changeTable(state: NftTable, op: NftOpInside): NftTable {
  switch (op.verb) {
    case "add-set":
      if (state.sets.has(op.set)) throw exists(op.set);
      return { ...state, sets: new Map(state.sets).set(op.set, { ...op.spec, elements: new Map() }) };
    case "delete-set":
      return { ...state, sets: without(state.sets, op.set) };
    case "add-elements":
    case "delete-elements":
      return { ...state, sets: changeElements(state, op) };
    default:
      return { ...state, chains: changeChains(state, op) };
  }
}

type NftOpInside = Exclude<NftOp, { readonly verb: "add-table" | "delete-table" }>;

function changeElements(state: NftTable, op: NftElementOp): ReadonlyMap<string, NftSet> {
  const set = state.sets.get(op.set);
  if (set === undefined) throw notFound(op.set);
  const elements = new Map(set.elements);
  if (op.verb === "delete-elements") {
    for (const key of op.keys) if (!elements.delete(key)) throw notFound(`${op.set} { ${key} }`);
  } else {
    for (const [key, value] of op.elements) {
      checkElement(set, key, value);
      const target = set.value === "verdict" ? splitVerdict(value).chain : undefined;
      if (target !== undefined && !state.chains.has(target)) throw notFound(target);
      if (elements.has(key)) throw exists(`${op.set} { ${key} }`);
      elements.set(key, value);
    }
  }
  return new Map(state.sets).set(op.set, { ...set, elements });
}

function changeChains(
  state: NftTable,
  op: Extract<NftOp, { readonly chain: string }>,
): ReadonlyMap<string, NftChain> {
  const chain = state.chains.get(op.chain);
  if (op.verb === "add-chain") {
    if (chain !== undefined) throw exists(op.chain);
    const hook = op.hook === undefined ? {} : { hook: op.hook };
    return new Map(state.chains).set(op.chain, { ...hook, rules: [] });
  }
  if (chain === undefined) throw notFound(op.chain);
  if (op.verb === "delete-chain") {
    if (isReferred(state, op.chain)) throw new FleetError("NFT_FAILED", `${op.chain} is in use`);
    return without(state.chains, op.chain);
  }
  const rules = op.rules.map(({ digest }) => ({ digest }));
  return new Map(state.chains).set(op.chain, { ...chain, rules });
}

function isReferred(state: NftTable, chain: string): boolean {
  return [...state.sets.values()].some(
    (set) =>
      set.value === "verdict" && [...set.elements.values()].some((it) => splitVerdict(it).chain === chain),
  );
}

function without<T>(map: ReadonlyMap<string, T>, key: string): ReadonlyMap<string, T> {
  const copy = new Map(map);
  if (!copy.delete(key)) throw notFound(key);
  return copy;
}

function exists(what: string): FleetError {
  return new FleetError("NFT_EXISTS", `${what} exists`, { retriable: true });
}

function notFound(what: string): FleetError {
  return new FleetError("NFT_NOT_FOUND", `${what} does not exist`, { retriable: true });
}
