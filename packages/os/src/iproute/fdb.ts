import { compare } from "./compare.ts";
import { objects, textOf } from "./json.ts";
import { words } from "./line.ts";
import { addressWord, deviceWord, hardwareWord } from "./words.ts";

/** Where a VXLAN device sends the frames for a hardware address. */
export interface ForwardingEntry {
  readonly device: string;
  /** `00:00:00:00:00:00`: frames for all others; such an entry may have several destinations. */
  readonly hardwareAddress: string;
  /** Outer destination: the address of a node. */
  readonly to: string;
}

/** One line for `bridge -batch`, made of checked words. Only this file makes it. */
export type BridgeLine = string & { readonly __brand: "BridgeLine" };

const ALL_OTHERS = "00:00:00:00:00:00";

function fdbLine(
  verb: "append" | "replace" | "delete",
  { device, hardwareAddress, to }: ForwardingEntry,
): BridgeLine {
  return words(
    `fdb ${verb} ${hardwareWord(hardwareAddress)} dev ${deviceWord(device)} dst ${addressWord(to)}`,
    verb === "delete" ? "" : "self permanent",
  ) as BridgeLine;
}

/** Pure. An address that moves to another node is replaced in one step. */
export function diffForwarding(
  actual: readonly ForwardingEntry[],
  desired: readonly ForwardingEntry[],
): readonly BridgeLine[] {
  const isShared = (it: ForwardingEntry): boolean => it.hardwareAddress === ALL_OTHERS;
  const entries = compare(actual, desired, (it) => {
    const key = `${it.device} ${it.hardwareAddress}`;
    return isShared(it) ? [`${key} ${addressWord(it.to)}`, ""] : [key, addressWord(it.to)];
  });
  return [
    ...entries.stale.map((it) => fdbLine("delete", it)),
    ...entries.wrong.map((it) => fdbLine(isShared(it) ? "append" : "replace", it)),
  ];
}

/** @param text - Output of `bridge -j fdb show`. */
export function parseForwarding(text: string, devices: ReadonlySet<string>): readonly ForwardingEntry[] {
  return objects(text).flatMap((it) => {
    const [device, hardwareAddress, to] = [textOf(it["ifname"]), textOf(it["mac"]), textOf(it["dst"])];
    if (device === undefined || !devices.has(device)) return [];
    // Entries without destination are the groups that the device listens to.
    return hardwareAddress === undefined || to === undefined ? [] : [{ device, hardwareAddress, to }];
  });
}
