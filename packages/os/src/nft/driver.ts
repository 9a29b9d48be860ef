import type { NftOp } from "./diff.ts";
import type { NftTable, NftTableName } from "./state.ts";

export interface NftCounter {
  readonly packets: number;
  readonly bytes: number;
}

/** Reads and changes one nftables table. Implementations: exec.ts, netlink/driver.ts, fake.ts. */
export interface NftDriver extends Disposable {
  /**
   * The whole table in the kernel: for a start and for the repair of a drift, not for the hot path. Undefined if the
   * table does not exist.
   */
  read(table: NftTableName, signal: AbortSignal): Promise<NftTable | undefined>;
  /** The elements of one map of the table; empty if it does not exist. */
  readMap(table: NftTableName, map: string, signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  /** What the rules that fill a dynamic set have counted, by key; empty if the set does not exist. */
  readCounters(
    table: NftTableName,
    set: string,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, NftCounter>>;
  /**
   * Carries out all of `ops`, or nothing. No packet sees a state between.
   *
   * @throws {FleetError} `NFT_EXISTS` when something to be added is there, `NFT_NOT_FOUND` when something named is not:
   *   either way the caller's record of the state is wrong, so read it. `NFT_FAILED` for what else the kernel refuses.
   */
  apply(table: NftTableName, ops: readonly NftOp[], signal: AbortSignal): Promise<void>;
}
