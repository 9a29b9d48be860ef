/** The entries to delete, and the entries to add or replace. `identify`: what an entry is about, and what it says. */
export function compare<T>(
  actual: readonly T[],
  desired: readonly T[],
  identify: (item: T) => readonly [key: string, value: string],
): { readonly stale: readonly T[]; readonly wrong: readonly T[] } {
  const have = new Map(actual.map((it) => identify(it)));
  const want = new Set(desired.map((it) => identify(it)[0]));
  return {
    stale: actual.filter((it) => !want.has(identify(it)[0])),
    wrong: desired.filter((it) => {
      const [key, value] = identify(it);
      return have.get(key) !== value;
    }),
  };
}
