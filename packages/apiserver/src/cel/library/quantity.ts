import type { Declaration } from "../function.ts";
import { type CelType, structOf } from "../type.ts";
import { CelError, type CelValue, Opaque } from "../value.ts";
import {
  BINARY,
  exponentOf,
  type Quantity as QuantityText,
  isQuantity,
  readQuantity,
} from "@fairlead/kube/api/meta/quantity.ts";

/** Amounts of resources. Source: k8s.io/apiserver, pkg/cel/library/quantity.go; apimachinery, pkg/api/resource. */

const QUANTITY = structOf("kubernetes.Quantity");
const NANO = 9;

class Quantity extends Opaque {
  readonly celType: CelType = QUANTITY;
  /** Unit: 10^-9. */
  readonly nanos: bigint;
  /** The power of ten in which it is held; undefined for amounts that are too exact for an int64. */
  readonly scale: number | undefined;

  constructor(nanos: bigint, scale: number | undefined) {
    super();
    this.nanos = nanos;
    this.scale = scale;
  }

  isSame(other: CelValue): boolean {
    return other instanceof Quantity && other.nanos === this.nanos;
  }

  /** Undefined if it has a fraction, is stored with one, or overflows int64. */
  get integer(): bigint | undefined {
    if (this.scale === undefined || this.scale < 0) return undefined;
    const value = this.nanos / 10n ** BigInt(NANO);
    return BigInt.asIntN(64, value) === value ? value : undefined;
  }

  get approximate(): number {
    const exponent = this.scale ?? -NANO;
    const base = exponent <= -NANO ? this.nanos : this.nanos / 10n ** BigInt(exponent + NANO);
    return exponent === 0 ? Number(base) : Number(base) * Number(`1e${exponent}`);
  }
}

/** Digits that an int64 surely holds. */
const DIGITS = 18;

/** The scale in which an amount is held: as it is written, where that fits. */
function scaleOf({ nanos, whole, fraction, suffix }: QuantityText): number | undefined {
  if (nanos === 0n) return 0;
  const digits = whole.replace(/^0+/, "") || "0";
  return suffix in BINARY ? binaryScale(digits, fraction, suffix) : decimalScale(digits, fraction, suffix);
}

function binaryScale(whole: string, denom: string, suffix: string): number | undefined {
  const precision = 15 - whole.length - Math.trunc(((BINARY[suffix] ?? 0) * 3) / 10) - 1;
  return denom === "" && precision >= 0 ? 0 : undefined;
}

function decimalScale(whole: string, denom: string, suffix: string): number | undefined {
  const exponent = exponentOf(suffix);
  const scale = exponent - denom.length;
  return DIGITS - whole.length - denom.length >= 0 && scale >= -NANO ? scale : undefined;
}

function problemOf(text: string): string {
  if (text !== "" && /^[+-]?\d*(?:\.\d*)?(?:[eEinumkKMGTP]+[-+]?\d*|[-+]\d*)?$/.test(text)) {
    return /^[+-]?\.?\d/.test(text)
      ? "unable to parse quantity's suffix"
      : "unable to parse numeric part of quantity";
  }
  return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
}

function toQuantity(text: string): Quantity {
  const quantity = readQuantity(text);
  if (quantity === undefined) throw new CelError(problemOf(text));
  return new Quantity(quantity.nanos, scaleOf(quantity));
}

function add(a: Quantity, b: Quantity, sign: 1n | -1n = 1n): Quantity {
  const nanos = a.nanos + sign * b.nanos;
  if (b.nanos === 0n) return a;
  if (a.nanos === 0n) return new Quantity(nanos, b.scale);
  const scale = a.scale === undefined || b.scale === undefined ? undefined : Math.min(a.scale, b.scale);
  return new Quantity(nanos, scale);
}

const ofInt = (value: bigint): Quantity => new Quantity(value * 10n ** BigInt(NANO), 0);

function order(a: Quantity, b: Quantity): number {
  return a.nanos < b.nanos ? -1 : a.nanos > b.nanos ? 1 : 0;
}

function asInteger({ integer }: Quantity): bigint {
  if (integer === undefined) throw new CelError("cannot convert value to integer");
  return integer;
}

const T = "kubernetes.Quantity";

export const QUANTITIES: readonly Declaration[] = [
  ["quantity", [`string_to_quantity(string) -> ${T}`, toQuantity]],
  ["isQuantity", ["is_quantity_string(string) -> bool", isQuantity]],
  ["sign", [`quantity_sign(${T}) -> int`, (it: Quantity) => BigInt(order(it, ofInt(0n)))]],
  [
    "isGreaterThan",
    [`.quantity_is_greater_than(${T}, ${T}) -> bool`, (a: Quantity, b: Quantity) => order(a, b) > 0],
  ],
  [
    "isLessThan",
    [`.quantity_is_less_than(${T}, ${T}) -> bool`, (a: Quantity, b: Quantity) => order(a, b) < 0],
  ],
  [
    "compareTo",
    [`.quantity_compare_to(${T}, ${T}) -> int`, (a: Quantity, b: Quantity) => BigInt(order(a, b))],
  ],
  ["asApproximateFloat", [`.quantity_get_float(${T}) -> double`, ({ approximate }: Quantity) => approximate]],
  ["asInteger", [`.quantity_get_int(${T}) -> int`, asInteger]],
  ["isInteger", [`.quantity_is_integer(${T}) -> bool`, ({ integer }: Quantity) => integer !== undefined]],
  [
    "add",
    [`.quantity_add(${T}, ${T}) -> ${T}`, (a: Quantity, b: Quantity) => add(a, b)],
    [`.quantity_add_int(${T}, int) -> ${T}`, (a: Quantity, b: bigint) => add(a, ofInt(b))],
  ],
  [
    "sub",
    [`.quantity_sub(${T}, ${T}) -> ${T}`, (a: Quantity, b: Quantity) => add(a, b, -1n)],
    [`.quantity_sub_int(${T}, int) -> ${T}`, (a: Quantity, b: bigint) => add(a, ofInt(b), -1n)],
  ],
];
