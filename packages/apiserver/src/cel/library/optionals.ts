import { describe } from "../eval/describe.ts";
import type { Declaration } from "../function.ts";
import { CelError, CelMap, type CelValue, Duration, isList, Optional, Timestamp, Uint } from "../value.ts";

/** Values that may be missing. Source: cel-go, optional types. */

const ZEROS = new Set<CelValue>([null, false, 0n, 0, ""]);
/** Go's zero time is the beginning of the year 1. */
const ZERO_TIME = -62_135_596_800_000_000_000n;

function isZero(value: CelValue): boolean {
  if (value === null || typeof value !== "object") return ZEROS.has(value);
  if (isList(value) || value instanceof Uint8Array) return value.length === 0;
  if (value instanceof CelMap) return value.size === 0;
  if (value instanceof Optional) return !value.hasValue || isZero(value.value);
  if (value instanceof Uint) return value.value === 0n;
  if (value instanceof Timestamp) return value.nanos === ZERO_TIME;
  return value instanceof Duration && value.nanos === 0n;
}

function unwrap(list: readonly CelValue[]): CelValue[] {
  return list.flatMap((it): CelValue[] => {
    if (!(it instanceof Optional)) throw new CelError(`value ${describe(it)} is not optional`);
    return it.hasValue ? [it.value] : [];
  });
}

const unreachable = (): never => {
  throw new CelError("no such overload");
};

export const OPTIONALS: readonly Declaration[] = [
  ["optional.none", ["optional_none() -> optional_type(V)", () => Optional.NONE]],
  ["optional.of", ["optional_of(V) -> optional_type(V)", (value: CelValue) => Optional.of(value)]],
  [
    "optional.ofNonZeroValue",
    [
      "optional_ofNonZeroValue(V) -> optional_type(V)",
      (value: CelValue) => (isZero(value) ? Optional.NONE : Optional.of(value)),
    ],
  ],
  ["optional.unwrap", ["optional_unwrap(list(optional_type(V))) -> list(V)", unwrap]],
  ["unwrapOpt", [".optional_unwrapOpt(list(optional_type(V))) -> list(V)", unwrap]],
  ["hasValue", [".optional_hasValue(optional_type(V)) -> bool", ({ hasValue }: Optional) => hasValue]],
  ["value", [".optional_value(optional_type(V)) -> V", ({ value }: Optional) => value]],
  // Evaluated by the evaluator itself: the alternative is evaluated only if needed.
  ["or", [".optional_or_optional(optional_type(V), optional_type(V)) -> optional_type(V)", unreachable]],
  ["orValue", [".optional_orValue_value(optional_type(V), V) -> V", unreachable]],
];
