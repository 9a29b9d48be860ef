import { CelError, CelMap, type CelValue, isList, typeOf } from "../value.ts";

/** Walks the entries of a map or the items of a list, until `visit` says that it has seen enough. */
export function iterate(
  range: CelValue,
  hasTwo: boolean,
  visit: (first: CelValue, second: CelValue) => boolean,
): void {
  if (range instanceof CelMap) {
    for (const [key, value] of range.entries()) if (!visit(key, value)) return;
  } else if (isList(range)) {
    let at = 0n;
    for (const item of range) if (!(hasTwo ? visit(at++, item) : visit(item, null))) return;
  } else {
    const { name } = typeOf(range);
    throw new CelError(`got 'types.${name.charAt(0).toUpperCase()}${name.slice(1)}', expected iterable type`);
  }
}
