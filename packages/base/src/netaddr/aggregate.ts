import { containsPrefix, type Prefix, prefixOf } from "./prefix.ts";

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
