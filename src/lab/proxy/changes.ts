import type { NftElementOp } from "#nft/diff.ts";
import type { NftTable } from "#nft/state.ts";
import type { Elements, Keys } from "./desired.ts";
import { LOCAL_BASE, SET_SPECS } from "./names.ts";

/** From what is wanted to the steps of one transaction, for the keys that may have changed only. Pure. */

/** What the kernel holds, as far as we know: written by us after each transaction, read back when in doubt. */
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

/** Keys of the clients whose endpoint is none of those that are to be remembered. */
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

/** UDP flows to forget: those of the client side of a Service port that go to `endpoint`. */
export interface StaleFlow {
  readonly address: string;
  readonly port: number;
  readonly endpoint: { readonly address: string; readonly port: number };
}

/**
 * UDP has no end that conntrack could see: a client that goes on sending keeps its flow, and its endpoint, for ever. So
 * the flows of endpoints that a port lost are forgotten, and those that went out untranslated before the port had any.
 *
 * @param before - Values as they were, for the keys in `changed`.
 */
export function staleFlows(before: Elements, desired: Elements, changed: Keys): readonly StaleFlow[] {
  return ["4", "6"].flatMap((family) => {
    const set = `endpoints-${family}`;
    const keys = [...(changed.get(set) ?? [])].filter((key) => key.includes(" . udp . "));
    return staleFlowsOf(keys, before.get(set), desired.get(set));
  });
}

function staleFlowsOf(
  keys: readonly string[],
  before: ReadonlyMap<string, string> | undefined,
  desired: ReadonlyMap<string, string> | undefined,
): readonly StaleFlow[] {
  const stale = new Map<string, StaleFlow>();
  const chosen = new Map<string, ReadonlySet<string>>();
  for (const key of keys) {
    const { frontend, address, port, isFirst } = parseSlot(key);
    // The first slot appears with the port's first endpoint.
    const target = before?.get(key) ?? (isFirst ? `${address} . ${port}` : undefined);
    if (target === undefined) continue;
    const backends = chosen.get(frontend) ?? backendsOf(desired, frontend);
    chosen.set(frontend, backends);
    if (backends.has(target)) continue;
    const [to = "", toPort] = target.split(" . ");
    const endpoint = { address: to, port: Number(toPort) };
    stale.set(`${frontend} ${target}`, { address, port, endpoint });
  }
  return [...stale.values()];
}

interface Slot {
  readonly frontend: string;
  readonly address: string;
  readonly port: number;
  readonly isFirst: boolean;
}

function parseSlot(key: string): Slot {
  const [slot = "", address = "", protocol = "", port = ""] = key.split(" . ");
  const frontend = `${address} . ${protocol} . ${port}`;
  return { frontend, address, port: Number(port), isFirst: Number(slot) % LOCAL_BASE === 0 };
}

/** The endpoints that a port has now. */
function backendsOf(
  endpoints: ReadonlyMap<string, string> | undefined,
  frontend: string,
): ReadonlySet<string> {
  const backends = new Set<string>();
  for (const base of [0, LOCAL_BASE]) {
    for (let slot = base; ; slot++) {
      const backend = endpoints?.get(`${slot} . ${frontend}`);
      if (backend === undefined) break;
      backends.add(backend);
    }
  }
  return backends;
}
