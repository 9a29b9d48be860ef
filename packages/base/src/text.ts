/** Orders texts by code units: the same everywhere, whatever the locale. */
export function byText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** `text` up to the last character that is not in `characters`. */
export function withoutTrailing(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** The one of `words` that `word` is most likely a misspelling of, if any is near enough. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const limit = Math.ceil(word.length / 3);
  const near = words
    .filter((it) => Math.abs(it.length - word.length) <= limit)
    .map((it) => ({ it, distance: editDistance(word, it) }))
    .filter(({ distance }) => distance <= limit);
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.it;
}

/** The number of characters to insert, delete or replace. */
function editDistance(a: string, b: string): number {
  const at = (row: readonly number[], column: number): number => row[column] ?? 0;
  const last = a.split("").reduce(
    (before, letter, above) => {
      const row = [above + 1];
      for (const [column, other] of b.split("").entries()) {
        const changed = at(before, column) + (letter === other ? 0 : 1);
        row.push(Math.min(at(before, column + 1) + 1, at(row, column) + 1, changed));
      }
      return row;
    },
    [...b.split(""), ""].map((_, column) => column),
  );
  return at(last, b.length);
}

/** Orders texts as people count: digits in them by their number, so that "a-2" comes before "a-10". */
export function byNaturalText(a: string, b: string): number {
  const [as, bs] = [a, b].map((it) => it.match(/[0-9]+|[^0-9]+/g) ?? []);
  for (const [at, x] of (as ?? []).entries()) {
    const y = bs?.[at];
    if (y === undefined) return 1;
    const order = isNumber(x) && isNumber(y) ? byNumber(x, y) : byText(x, y);
    if (order !== 0) return order;
  }
  return (as ?? []).length - (bs ?? []).length || byText(a, b);
}

const isNumber = (it: string): boolean => it >= "0" && it < ":";

function byNumber(a: string, b: string): number {
  const [x, y] = [a.replace(/^0+/, ""), b.replace(/^0+/, "")];
  return x.length - y.length || byText(x, y);
}

/** FNV-1a, 32 bits, over UTF-16 code units: the same everywhere, and not for secrets. */
export function hash32(text: string): number {
  let value = 0x81_1c_9d_c5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01_00_01_93);
  return value >>> 0;
}
