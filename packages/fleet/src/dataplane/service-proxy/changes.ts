import type { NftElementOp } from "@fairlead/os/nft/diff.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import type { Elements, Keys } from "./desired.ts";
import { SET_SPECS } from "./names.ts";

/** Computes the steps of one transaction towards the desired state, only for keys that may have changed. Pure. */

/** The known contents of the kernel: recorded after each transaction, read again when in doubt. */
export type KernelRecord = Map<string, Map<string, string>>;

export function recordOf(table: NftTable): KernelRecord {
  return new Map([...table.sets].map(([name, set]) => [name, new Map(set.elements)]));
}

/** Steps that bring the kernel from `record` to `desired` in `changed`. */
export function changeOps(record: KernelRecord, desired: Elements, changed: Keys): readonly NftElementOp[] {
  const deletes: NftElementOp[] = [];
  const adds: NftElementOp[] = [];
  for (const [set, keys] of changed) {
    const spec = SET_SPECS.get(set);
    if (spec === undefined) continue;
    const { removed, fresh } = changedElements(record.get(set), desired.get(set), keys);
    if (removed.length > 0) deletes.push({ verb: "delete-elements", set, spec, keys: removed });
    if (fresh.length > 0) adds.push({ verb: "add-elements", set, spec, elements: fresh });
  }
  return [...deletes, ...adds];
}

function changedElements(
  have: ReadonlyMap<string, string> | undefined,
  want: ReadonlyMap<string, string> | undefined,
  keys: ReadonlySet<string>,
): { readonly removed: readonly string[]; readonly fresh: readonly (readonly [string, string])[] } {
  const removed: string[] = [];
  const fresh: (readonly [string, string])[] = [];
  for (const key of keys) {
    const before = have?.get(key);
    const after = want?.get(key);
    if (before === after) continue;
    if (before !== undefined) removed.push(key);
    if (after !== undefined) fresh.push([key, after]);
  }
  return { removed, fresh };
}

/** Writes into `record` what a transaction did. */
export function noteOps(record: KernelRecord, ops: readonly NftElementOp[]): void {
  for (const op of ops) {
    let values = record.get(op.set);
    if (values === undefined) record.set(op.set, (values = new Map<string, string>()));
    if (op.verb === "delete-elements") for (const key of op.keys) values.delete(key);
    else for (const [key, value] of op.elements) values.set(key, value);
  }
}

/** Keys of the clients whose endpoint is not among those to remember. */
export function staleClients(
  clients: ReadonlyMap<string, string>,
  remember: ReadonlyMap<string, string>,
): readonly string[] {
  return [...clients]
    .filter(([key, endpoint]) => {
      const [, ...frontend] = key.split(" . ");
      return !remember.has([...frontend, endpoint].join(" . "));
    })
    .map(([key]) => key);
}
