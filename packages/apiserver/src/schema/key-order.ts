/**
 * `value` with the fields of every object in it sorted by name, as Go writes maps, which custom resources are in a real
 * server; lists stay as they are. What is sorted already is not copied, and `value` is never changed.
 *
 * Names that read as array indices ("10") cannot be sorted: JavaScript keeps them in front of all others, by number.
 */
export function inKeyOrder<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  return (Array.isArray(value) ? listInOrder(value) : mapInOrder(value as Record<string, unknown>)) as T;
}

function listInOrder(list: readonly unknown[]): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let at = 0; at < list.length; at++) {
    const item = list[at];
    const sorted = inKeyOrder(item);
    if (sorted === item) continue;
    copy ??= [...list];
    copy[at] = sorted;
  }
  return copy ?? list;
}

function mapInOrder(map: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const names = Object.keys(map);
  if (!areSorted(names)) return rebuilt(map, names.toSorted(byUtf8));
  let copy: Record<string, unknown> | undefined;
  for (const name of names) {
    const field = map[name];
    const sorted = inKeyOrder(field);
    if (sorted === field) continue;
    copy ??= { ...map };
    copy[name] = sorted;
  }
  return copy ?? map;
}

function rebuilt(map: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const name of names) copy[name] = inKeyOrder(map[name]);
  return copy;
}

function areSorted(names: readonly string[]): boolean {
  for (let at = 1; at < names.length; at++)
    if (byUtf8(names[at - 1] ?? "", names[at] ?? "") > 0) return false;
  return true;
}

const FIRST_SURROGATE = 0xd8_00;
const AFTER_SURROGATES = 0xe0_00;

/** Orders texts by the bytes of their UTF-8, which is the order of their code points. */
export function byUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const [x, y] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Surrogates stand for code points above all that one code unit holds. */
function rank(unit: number): number {
  if (unit < FIRST_SURROGATE) return unit;
  return unit < AFTER_SURROGATES ? unit + AFTER_SURROGATES : unit - (AFTER_SURROGATES - FIRST_SURROGATE);
}
