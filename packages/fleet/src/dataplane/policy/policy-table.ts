import { diffTable, type NftOp } from "@fairlead/os/nft/diff.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import { POLICY_TABLE } from "./names.ts";
import type { PolicyDraft } from "./policy-draft.ts";

/** The table in one network namespace: what is wanted is written there by the smallest change. */
export class PolicyTable {
  readonly #nft: NftDriver;
  /** Whether the kernel holds what the draft held when its changes were taken last. */
  #isKnown = false;

  constructor(nft: NftDriver) {
    this.#nft = nft;
  }

  /** The next `sync` compares everything. */
  doubt(): void {
    this.#isKnown = false;
  }

  /**
   * One transaction: no packet meets a chain that is not complete, or a pod whose chain is not there.
   *
   * @returns What was done.
   */
  async sync({ table }: PolicyDraft, signal: AbortSignal): Promise<readonly NftOp[]> {
    const isKnown = this.#isKnown;
    this.#isKnown = false;
    const { before, after } = table.takeChanges();
    const ops = isKnown
      ? diffTable(before, after)
      : diffTable(await this.#nft.read(POLICY_TABLE, signal), table.whole);
    await this.#nft.apply(POLICY_TABLE, ops, signal);
    this.#isKnown = true;
    return ops;
  }

  async remove(signal: AbortSignal): Promise<void> {
    this.#isKnown = false;
    await this.#nft.apply(
      POLICY_TABLE,
      diffTable(await this.#nft.read(POLICY_TABLE, signal), undefined),
      signal,
    );
  }
}
