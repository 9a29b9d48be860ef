import type { Logger } from "@fairlead/base/log.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { diffTable, type NftElementOp } from "@fairlead/os/nft/diff.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import { changeOps, type KernelRecord, noteOps, recordOf, staleClients } from "./changes.ts";
import { DesiredElements, type Elements, type Keys } from "./desired.ts";
import type { FlowTable } from "./flows.ts";
import { SET_SPECS, setName } from "./names.ts";
import { choicesOf, goneFlows, type ServiceFlow } from "./stale-flows.ts";

const REMEMBER = setName("remember", "4");
const AFFINITY = setName("affinity", "4");
const NOTHING: ReadonlyMap<string, string> = new Map();

/** A table of sets of `SET_SPECS`, or some of them, with the rules around their elements. */
export interface TableLayout {
  readonly table: NftTableName;
  readonly render: (elements: Elements) => NftTable;
  /** All packets for addresses of its services that no element is for are refused. Default: false. */
  readonly isClosed?: boolean;
}

/**
 * The proxy's table: the desired state, the record of the kernel's state, and the steps from one to the other. The record
 * is read from the kernel at the start and after any error; in between, the cost of a change depends on its size only.
 */
export class KernelTable {
  readonly desired = new DesiredElements();
  readonly #layout: TableLayout;
  readonly #nft: NftDriver;
  readonly #flows: FlowTable;
  readonly #log: Logger;
  readonly #onLost: () => void;
  #record: KernelRecord | undefined;
  #isWritten = false;
  #isDoubtful = false;
  /** Flows to be ended once no new one can choose the old endpoint. */
  #gone: readonly ServiceFlow[] = [];

  constructor(options: {
    readonly layout: TableLayout;
    readonly nft: NftDriver;
    readonly flows: FlowTable;
    readonly log: Logger;
    /** The table was deleted by another program, and is there again. Default: it is only logged. */
    readonly onLost?: (table: string) => void;
  }) {
    this.#layout = options.layout;
    this.#nft = options.nft;
    this.#flows = options.flows;
    this.#log = options.log;
    this.#onLost = () => options.onLost?.(options.layout.table.name);
  }

  /** The next `sync` compares everything. */
  doubt(): void {
    this.#isDoubtful = true;
  }

  /** Makes the kernel equal to the desired state. Writes nothing if nothing has changed. */
  async sync(signal: AbortSignal): Promise<void> {
    const changed = this.desired.takeChanged();
    const record = this.#isDoubtful ? undefined : this.#record;
    this.#isDoubtful = false;
    this.#record = undefined;
    const next = record === undefined ? await this.#syncWhole(signal) : record;
    if (record !== undefined) {
      const gone = goneFlows(record, this.desired.elements, changed, this.#layout);
      await this.#apply(changeOps(record, this.desired.elements, changed), record, signal);
      this.#gone = [...this.#gone, ...gone];
    }
    await this.#endFlows(record === undefined, signal);
    await this.#forgetClients(changed, record === undefined, signal);
    this.#record = next;
  }

  /**
   * Forgets clients of endpoints that their Service no longer has. By now no rule records such an endpoint, so this
   * reads all of them.
   */
  async #forgetClients(changed: Keys, isWhole: boolean, signal: AbortSignal): Promise<void> {
    const remember = this.desired.elements.get(REMEMBER) ?? NOTHING;
    const isLess = [...(changed.get(REMEMBER) ?? [])].some((key) => !remember.has(key));
    const spec = SET_SPECS.get(AFFINITY);
    if (spec === undefined || !(isLess || isWhole)) return;
    const clients = await this.#nft.readMap(this.#layout.table, AFFINITY, signal);
    const keys = staleClients(clients, remember);
    if (keys.length === 0) return;
    // If one has expired since, the transaction fails; a full comparison then reads the table again.
    await this.#nft.apply(
      this.#layout.table,
      [{ verb: "delete-elements", set: AFFINITY, spec, keys }],
      signal,
    );
  }

  async #syncWhole(signal: AbortSignal): Promise<KernelRecord> {
    const actual = await this.#nft.read(this.#layout.table, signal);
    const wanted = this.#layout.render(this.desired.elements);
    const ops = diffTable(actual, wanted);
    await this.#nft.apply(this.#layout.table, ops, signal);
    if (actual === undefined && this.#isWritten) this.#onLost();
    this.#isWritten = true;
    const before = elementsOf(actual);
    this.#gone = goneFlows(
      before,
      this.desired.elements,
      allKeys(before, this.desired.elements),
      this.#layout,
    );
    this.#log.info("the kernel's table was compared as a whole", { steps: ops.length });
    return recordOf(wanted);
  }

  async #apply(ops: readonly NftElementOp[], record: KernelRecord, signal: AbortSignal): Promise<void> {
    if (ops.length === 0) return;
    await this.#nft.apply(this.#layout.table, ops, signal);
    noteOps(record, ops);
  }

  /** @param isWhole - What was changed is not known: an earlier proxy may have died before it ended flows. */
  async #endFlows(isWhole: boolean, signal: AbortSignal): Promise<void> {
    const gone = this.#gone;
    this.#gone = [];
    if (gone.length === 0 && !isWhole) return;
    try {
      await this.#flows.end({ gone, isWhole }, () => choicesOf(this.desired.elements), signal);
    } catch (error) {
      // The table is correct; the remaining flows end by timeout.
      this.#log.warn("cannot end flows of removed endpoints", { error: messageOf(error) });
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
