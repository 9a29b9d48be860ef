import type { Logger } from "#base/log.ts";
import { messageOf } from "#base/errors.ts";
import { diffTable, type NftElementOp } from "#nft/diff.ts";
import type { NftDriver } from "#nft/driver.ts";
import type { NftTable } from "#nft/state.ts";
import { changeOps, type KernelRecord, noteOps, recordOf, staleFlows, type StaleFlow } from "./changes.ts";
import { DesiredElements, type Elements, type Keys } from "./desired.ts";
import type { FlowTable } from "./flows.ts";
import { PROXY_TABLE } from "./names.ts";
import { renderTable } from "./table.ts";

/**
 * The proxy's table: what is wanted, our record of what the kernel holds, and the way from one to the other. The record
 * is read from the kernel at the start and after any error; in between a change costs what it touches.
 */
export class KernelTable {
  readonly desired = new DesiredElements();
  readonly #nft: NftDriver;
  readonly #flows: FlowTable;
  readonly #log: Logger;
  #record: KernelRecord | undefined;
  /** Flows to be forgotten once no new one can choose the old endpoint. */
  #stale: readonly StaleFlow[] = [];

  constructor(options: { readonly nft: NftDriver; readonly flows: FlowTable; readonly log: Logger }) {
    this.#nft = options.nft;
    this.#flows = options.flows;
    this.#log = options.log;
  }

  /** Makes the kernel hold what is desired. Nothing to change means that nothing is written. */
  async sync(signal: AbortSignal): Promise<void> {
    const changed = this.desired.takeChanged();
    const record = this.#record;
    this.#record = undefined;
    if (record === undefined) this.#record = await this.#syncWhole(signal);
    else {
      const stale = staleFlows(record, this.desired.elements, changed);
      await this.#apply(changeOps(record, this.desired.elements, changed), record, signal);
      this.#record = record;
      this.#stale = [...this.#stale, ...stale];
    }
    await this.#forgetStale(signal);
  }

  async #syncWhole(signal: AbortSignal): Promise<KernelRecord> {
    const actual = await this.#nft.read(PROXY_TABLE, signal);
    const wanted = renderTable(this.desired.elements);
    const ops = diffTable(actual, wanted);
    await this.#nft.apply(PROXY_TABLE, ops, signal);
    const before = elementsOf(actual);
    this.#stale = staleFlows(before, this.desired.elements, allKeys(before, this.desired.elements));
    this.#log.info("the kernel's table was compared as a whole", { steps: ops.length });
    return recordOf(wanted);
  }

  async #apply(ops: readonly NftElementOp[], record: KernelRecord, signal: AbortSignal): Promise<void> {
    if (ops.length === 0) return;
    await this.#nft.apply(PROXY_TABLE, ops, signal);
    noteOps(record, ops);
  }

  async #forgetStale(signal: AbortSignal): Promise<void> {
    const stale = this.#stale;
    this.#stale = [];
    if (stale.length === 0) return;
    try {
      await this.#flows.forget(stale, signal);
    } catch (error) {
      // The table is right; what is left are flows that end by time-out.
      this.#log.warn("UDP flows of removed endpoints could not be ended", { error: messageOf(error) });
    }
  }
}

function elementsOf(table: NftTable | undefined): Elements {
  return new Map([...(table?.sets ?? [])].map(([name, set]) => [name, set.elements]));
}

function allKeys(before: Elements, desired: Elements): Keys {
  const keys = new Map<string, Set<string>>();
  for (const [set, values] of [...before, ...desired]) {
    const known = keys.get(set) ?? new Set();
    for (const key of values.keys()) known.add(key);
    keys.set(set, known);
  }
  return keys;
}
