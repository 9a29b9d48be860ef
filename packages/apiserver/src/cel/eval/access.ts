import { CelError, CelMap, type CelValue, isList, Optional, Uint } from "../value.ts";
import { describe } from "./describe.ts";

/** The value at a key or an index; undefined if absent. */
function find(target: CelValue, key: CelValue): CelValue | undefined {
  if (target instanceof CelMap) return target.get(key);
  if (!isList(target)) return undefined;
  const index = indexOf(key);
  return index === undefined ? undefined : target[index];
}

function indexOf(key: CelValue): number | undefined {
  if (key instanceof Uint) return Number(key.value);
  return typeof key === "bigint" || typeof key === "number" ? Number(key) : undefined;
}

/** @throws {CelError} if there is no such key or index. */
export function access(target: CelValue, key: CelValue): CelValue {
  if (target instanceof Optional) return accessOptional(target, key);
  const value = find(target, key);
  if (value !== undefined) return value;
  if (!isList(target)) throw new CelError(`no such key: ${describe(key)}`);
  const index = indexOf(key);
  if (index !== undefined && !Number.isInteger(index)) {
    throw new CelError(`unsupported index value ${describe(key)} in list`);
  }
  if (index === undefined) throw new CelError("unsupported index type 'string' in list");
  throw new CelError(`index out of bounds: ${describe(key)}`);
}

/** `target.?key` and `target[?key]`. */
export function accessOptional(target: CelValue, key: CelValue): Optional {
  if (target instanceof Optional) return target.hasValue ? accessOptional(target.value, key) : Optional.NONE;
  const value = find(target, key);
  return value === undefined ? Optional.NONE : Optional.of(value);
}

/** `has(target.key)`. */
export function isPresent(target: CelValue, key: string): boolean {
  if (target instanceof Optional) return target.hasValue && isPresent(target.value, key);
  return find(target, key) !== undefined;
}
