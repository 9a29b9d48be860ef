/** What a link of a lab does to its packets, in both directions alike: pure. */

import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";

export interface LinkConditions {
  /** Unit: bytes. Range: 1280 to 9000. Absent: 1500. */
  readonly mtu?: number;
  /** Of each direction. Unit: milliseconds. Range: 0 to 10 000. */
  readonly delayMs?: number;
  /** Share of the packets that are lost, in each direction. Range: 0 to 100. */
  readonly lossPercent?: number;
  /** Of each direction. Unit: bits per second. Range: 10 000 to 100 000 000 000. */
  readonly rateBits?: number;
  readonly dropUdp?: boolean;
  readonly dropUdpFragments?: boolean;
}

/** Stored with the lab. */
export interface StoredConditions extends LinkConditions {
  /** What delays: the kernel, or a process of the lab where the kernel has no netem. */
  readonly delayBy?: "netem" | "wire";
}

export const DEFAULT_MTU = 1500;

const LIMITS = [
  ["mtu", "the MTU", 1280, 9000, true],
  ["delayMs", "the delay in milliseconds", 0, 10_000, false],
  ["lossPercent", "the loss in percent", 0, 100, false],
  ["rateBits", "the rate in bits per second", 10_000, 100_000_000_000, true],
] as const;

/** @throws {FleetError} `OPTION_INVALID` with all that is wrong. */
export function checkConditions(conditions: LinkConditions): void {
  const problems: string[] = [];
  for (const [field, what, min, max, isWhole] of LIMITS) {
    const value = conditions[field];
    if (value === undefined) continue;
    if (value >= min && value <= max && (!isWhole || Number.isInteger(value))) continue;
    problems.push(`${what} must be ${isWhole ? "a whole number " : ""}from ${min} to ${max}, got ${value}`);
  }
  if (problems.length > 0) throw new FleetError("OPTION_INVALID", `invalid link: ${problems.join("; ")}`);
}

/** Those that differ from an ordinary link's. */
export function notable(conditions: StoredConditions): StoredConditions {
  const { mtu, delayMs, lossPercent, rateBits, dropUdp, dropUdpFragments, delayBy } = conditions;
  const orNone = <T>(value: T | undefined, none: T): T | undefined => (value === none ? undefined : value);
  return defined({
    mtu: orNone(mtu, DEFAULT_MTU),
    delayMs: orNone(delayMs, 0),
    lossPercent: orNone(lossPercent, 0),
    rateBits,
    dropUdp: orNone(dropUdp, false),
    dropUdpFragments: orNone(dropUdpFragments, false),
    delayBy: orNone(delayMs, 0) === undefined ? undefined : delayBy,
  });
}

/** "mtu 1400, delay 20 ms, loss 1 %", or "" for an ordinary link. */
export function describeConditions(conditions: LinkConditions): string {
  const { mtu, delayMs, lossPercent, rateBits, dropUdp, dropUdpFragments } = notable(conditions);
  return [
    mtu === undefined ? "" : `mtu ${mtu}`,
    delayMs === undefined ? "" : `delay ${delayMs} ms`,
    lossPercent === undefined ? "" : `loss ${lossPercent} %`,
    rateBits === undefined ? "" : `rate ${rateBits / 1_000_000} Mbit/s`,
    dropUdp === true ? "drops UDP" : "",
    dropUdpFragments === true ? "drops UDP fragments" : "",
  ]
    .filter((it) => it !== "")
    .join(", ");
}
