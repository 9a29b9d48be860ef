import type { DataType } from "./datatype.ts";
import type { NftRule } from "./rule.ts";

/**
 * Contents of one nftables table as values: no handles, no counters, so that two states compare as data. Other tables
 * are not touched.
 */
export interface NftTable {
  readonly chains: ReadonlyMap<string, NftChain>;
  /** Sets and maps: nftables keeps both in one name space. */
  readonly sets: ReadonlyMap<string, NftSet>;
}

/** Which table. */
export interface NftTableName {
  readonly family: "ip" | "ip6" | "inet";
  readonly name: string;
}

export interface NftChain {
  /** Absent for a chain that is only jumped to. */
  readonly hook?: NftHook;
  readonly rules: readonly NftRule[];
}

/** The hook of a base chain. The policy is always accept, because our tables must not block other traffic. */
export interface NftHook {
  readonly type: "filter" | "nat" | "route";
  readonly hook: "prerouting" | "input" | "forward" | "output" | "postrouting";
  /** Lower runs first. The usual names: raw -300, mangle -150, dstnat -100, filter 0, srcnat 100. */
  readonly priority: number;
}

/** The type and the flags of a set or map, without its elements. */
export interface NftSetSpec {
  /** Types of the parts of a key; more than one make a concatenation. */
  readonly key: readonly DataType[];
  /** Types of the parts of a value. Absent: a set. */
  readonly value?: readonly DataType[] | "verdict";
  /** Addresses in keys are prefixes or single addresses, ports ranges or single ports; no two keys overlap. Default: false. */
  readonly interval?: boolean;
  /**
   * Rules add elements, each with its own timeout; the contents belong to the packets and are not compared.
   * Default: false.
   */
  readonly dynamic?: boolean;
}

export interface NftSet extends NftSetSpec {
  /** Key to value ("" in a set), each in the canonical text of `element.ts`. */
  readonly elements: ReadonlyMap<string, string>;
}

/** Whether two sets can hold the same elements. */
export function sameSetSpec(a: NftSetSpec, b: NftSetSpec): boolean {
  return (
    String(a.key) === String(b.key) &&
    String(a.value ?? "") === String(b.value ?? "") &&
    (a.interval ?? false) === (b.interval ?? false) &&
    (a.dynamic ?? false) === (b.dynamic ?? false)
  );
}

export function sameHook(a: NftHook | undefined, b: NftHook | undefined): boolean {
  return a?.type === b?.type && a?.hook === b?.hook && a?.priority === b?.priority;
}
