import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftCounter, NftDriver } from "@fairlead/os/nft/driver.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import { FAMILIES, ownSet, POLICY_TABLE } from "./names.ts";

/** The table in one network namespace: what is wanted is written there by the smallest change. */
export class PolicyTable {
  readonly #nft: NftDriver;
  readonly #onLost: (table: string) => void;
  #isWritten = false;
  /** Whether the kernel holds what was wanted last. */
  #isKnown = false;

  /** @param onLost - The table was deleted by another program, and is there again. */
  constructor(nft: NftDriver, onLost: (table: string) => void) {
    this.#nft = nft;
    this.#onLost = onLost;
  }

  /** The next `sync` compares everything. */
  doubt(): void {
    this.#isKnown = false;
  }

  /**
   * One transaction: no packet meets a chain that is not complete, or a pod whose chain is not there.
   *
   * @param wanted - The table, and what changed since the last call.
   * @returns Whether anything was changed.
   */
  async sync(
    {
      before,
      after,
      whole,
    }: { readonly before: NftTable; readonly after: NftTable; readonly whole: NftTable },
    signal: AbortSignal,
  ): Promise<boolean> {
    const isKnown = this.#isKnown;
    this.#isKnown = false;
    const actual = isKnown ? before : await this.#nft.read(POLICY_TABLE, signal);
    const ops = diffTable(actual, isKnown ? after : whole);
    await this.#nft.apply(POLICY_TABLE, ops, signal);
    if (actual === undefined && this.#isWritten) this.#onLost(POLICY_TABLE.name);
    this.#isWritten = true;
    this.#isKnown = true;
    return ops.length > 0;
  }

  /** Packets that were denied or allowed lately, by flow. */
  async counted(kind: "denied" | "allowed", signal: AbortSignal): Promise<ReadonlyMap<string, NftCounter>> {
    const sets = FAMILIES.map((it) => this.#nft.readCounters(POLICY_TABLE, ownSet(kind, it), signal));
    return new Map((await Promise.all(sets)).flatMap((it) => [...it]));
  }

  /** What the kernel has. */
  read(signal: AbortSignal): Promise<NftTable | undefined> {
    return this.#nft.read(POLICY_TABLE, signal);
  }

  async remove(signal: AbortSignal): Promise<void> {
    this.#isKnown = false;
    this.#isWritten = false;
    const actual = await this.#nft.read(POLICY_TABLE, signal);
    await this.#nft.apply(POLICY_TABLE, diffTable(actual, undefined), signal);
  }
}
