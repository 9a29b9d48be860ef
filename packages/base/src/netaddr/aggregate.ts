import { containsPrefix, lastAddress, overlaps, type Prefix, prefixOf } from "./prefix.ts";

/** The fewest prefixes that hold the same addresses, in order, IPv4 first. */
export function aggregated(prefixes: readonly Prefix[]): readonly Prefix[] {
  const done: Prefix[] = [];
  for (const prefix of prefixes.toSorted(compare)) {
    const last = done.at(-1);
    if (last !== undefined && containsPrefix(last, prefix)) continue;
    done.push(prefix);
    joinHalves(done);
  }
  return done;
}

/**
 * Those that have an address in common with a prefix: by bisection.
 *
 * @param all - As `aggregated` returns them.
 */
export function overlapping(all: readonly Prefix[], prefix: Prefix): readonly Prefix[] {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const it = all[middle];
    if (it !== undefined && isBefore(it, prefix)) low = middle + 1;
    else high = middle;
  }
  const found: Prefix[] = [];
  for (let at = low; at < all.length; at++) {
    const it = all[at];
    if (it === undefined || !overlaps(it, prefix)) break;
    found.push(it);
  }
  return found;
}

/** Whether all addresses of one are lower than those of the other. */
function isBefore(a: Prefix, b: Prefix): boolean {
  return a.family === b.family ? lastAddress(a) < b.network : a.family < b.family;
}

function compare(a: Prefix, b: Prefix): number {
  if (a.family !== b.family) return a.family < b.family ? -1 : 1;
  if (a.network !== b.network) return a.network < b.network ? -1 : 1;
  return a.length - b.length;
}

/** While the last two are the halves of one prefix, that takes their place. */
function joinHalves(done: Prefix[]): void {
  for (;;) {
    const [low, high] = [done.at(-2), done.at(-1)];
    if (low === undefined || high === undefined || low.length !== high.length || low.length === 0) return;
    const whole = prefixOf(low.network, low.length - 1);
    if (low.family !== high.family || !containsPrefix(whole, high)) return;
    done.splice(-2, 2, whole);
  }
}
