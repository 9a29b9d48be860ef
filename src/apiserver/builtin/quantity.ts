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
/** Largest exponent and length that are read, so that nobody makes a number of a million digits. */
const MAX_EXPONENT = 100;
const MAX_LENGTH = 128;
const NANO = 9;

/** @returns Unit: 10^-9, what is smaller being rounded up; undefined for what is no quantity. */
export function parseQuantity(value: unknown): bigint | undefined {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text !== "string" || text.length > MAX_LENGTH) return undefined;
  const [, sign, digits = "", suffix = ""] = FORM.exec(text) ?? [];
  const exponent = exponentOf(suffix);
  if (sign === undefined || Math.abs(exponent) > MAX_EXPONENT) return undefined;
  const size = scale(digits, BINARY[suffix] ?? 0, exponent);
  return sign === "-" ? -size : size;
}

function scale(digits: string, binaryExponent: number, exponent: number): bigint {
  const [whole = "", fraction = ""] = digits.split(".");
  return shift(BigInt(whole + fraction) << BigInt(binaryExponent), exponent + NANO - fraction.length);
}

/** Power of ten; `E` alone is a suffix, and with a number behind it an exponent. */
export function exponentOf(suffix: string): number {
  return /^[eE][+-]?\d/.test(suffix) ? Number(suffix.slice(1)) : (DECIMAL[suffix] ?? 0);
}

function shift(value: bigint, exponent: number): bigint {
  if (exponent >= 0) return value * 10n ** BigInt(exponent);
  const divisor = 10n ** BigInt(-exponent);
  return (value + divisor - 1n) / divisor;
}
