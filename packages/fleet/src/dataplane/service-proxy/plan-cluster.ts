import { byText } from "@fairlead/base/text.ts";
import { containsPrefix, formatPrefix, parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { elementKey } from "@fairlead/os/nft/element.ts";
import { SET_SPECS, setName } from "./names.ts";
import type { PlannedElement } from "./plan.ts";

/**
 * The prefixes of the cluster's pods, or of those on this node, without those that lie inside another: nftables refuses overlaps.
 *
 * @throws {FleetError} `ADDRESS_INVALID`
 */
export function planCluster(kind: "cluster" | "own", cidrs: readonly string[]): readonly PlannedElement[] {
  const prefixes = cidrs.map((it) => parsePrefix(it));
  const outer = prefixes.filter((it) => !prefixes.some((other) => isWider(other, it)));
  const texts = [...new Set(outer.map((it) => formatPrefix(it)))].toSorted(byText);
  return texts.map((text) => {
    const set = setName(kind, text.includes(":") ? "6" : "4");
    const spec = SET_SPECS.get(set) ?? { key: [] };
    return { set, key: elementKey(spec, [text]), value: "" };
  });
}

function isWider(outer: Prefix, inner: Prefix): boolean {
  return outer.length < inner.length && containsPrefix(outer, inner);
}
