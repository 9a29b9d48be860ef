/** Quantities of resources, such as `500m`, `1.5Gi` or `2e3`. Source: k8s.io/apimachinery, pkg/api/resource. */

const FORM = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?$/;
/** Power of ten of a decimal suffix. */
const DECIMAL: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
/** Power of two of a binary suffix. */
export const BINARY: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
/** Largest exponent and length that are accepted, so that a text cannot become a number of a million digits. */
const MAX_EXPONENT = 128;
const MAX_LENGTH = 128;
const NANO = 9;
/** Unit: 10^-9. */
export const ONE = 10n ** BigInt(NANO);

export interface Quantity {
  /** Unit: 10^-9. What is smaller is rounded up, away from zero. */
  readonly nanos: bigint;
  /** As it is written: the digits before the point and behind it, and what follows them. */
  readonly whole: string;
  readonly fraction: string;
  readonly suffix: string;
}

/** Undefined if the value is not a quantity. */
export function readQuantity(value: unknown): Quantity | undefined {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text !== "string" || text.length > MAX_LENGTH) return undefined;
  const [, sign, digits = "", suffix = ""] = FORM.exec(text) ?? [];
  const exponent = exponentOf(suffix);
  if (sign === undefined || Math.abs(exponent) > MAX_EXPONENT) return undefined;
  const [whole = "", fraction = ""] = digits.split(".");
  const size = scale(whole + fraction, BINARY[suffix], exponent + NANO - fraction.length);
  return { nanos: sign === "-" ? -size : size, whole, fraction, suffix };
}

function scale(digits: string, powerOfTwo = 0, powerOfTen = 0): bigint {
  const value = BigInt(digits) << BigInt(powerOfTwo);
  return powerOfTen >= 0 ? value * 10n ** BigInt(powerOfTen) : ceilDivide(value, 10n ** BigInt(-powerOfTen));
}

/** Whether a text has the form of a quantity, were it larger than what is read. */
export function isQuantity(text: string): boolean {
  return FORM.test(text);
}

/** @returns Unit: 10^-9, rounded up; undefined if the value is not a quantity. */
export function parseQuantity(value: unknown): bigint | undefined {
  return readQuantity(value)?.nanos;
}

/** The quantity in multiples of 1/`parts`, rounded up. Undefined if the value is not a quantity. */
export function countQuantity(value: unknown, parts = 1): number | undefined {
  const nanos = parseQuantity(value);
  return nanos === undefined ? undefined : Number(ceilDivide(nanos * BigInt(parts), ONE));
}

/** Power of ten; `E` alone is a suffix, and with a number behind it an exponent. */
export function exponentOf(suffix: string): number {
  return isExponent(suffix) ? Number(suffix.slice(1)) : (DECIMAL[suffix] ?? 0);
}

export function isExponent(suffix: string): boolean {
  return /^[eE][+-]?\d/.test(suffix);
}

/** Rounds up. The divisor is positive. */
export function ceilDivide(value: bigint, divisor: bigint): bigint {
  const quotient = value / divisor;
  return quotient * divisor < value ? quotient + 1n : quotient;
}
