const FORM = /^([+-]?)(\d+\.?\d*|\.\d+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d{1,3})?$/;
const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"] as const;
/** Index in DECIMAL of the suffix that stands for one. */
const ONE = 3;
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] as const;
/** More digits than any amount has; a bound for arithmetic on text from outside. */
const MAX_LENGTH = 128;
const NANO = 9;

/**
 * The canonical form of a quantity: `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`, `1.5Gi` is `1536Mi`. What is
 * smaller than 10^-9 is rounded up. Undefined for what is no quantity. Source: apimachinery, pkg/api/resource.
 */
export function canonicalQuantity(text: string): string | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const [, sign, digits, suffix = ""] = FORM.exec(text) ?? [];
  if (sign === undefined || digits === undefined) return undefined;
  const isNegative = sign === "-";
  const amount = parseAmount(digits, suffix);
  if (amount === undefined) return undefined;
  const canonical = renderQuantity(amount, suffix);
  return isNegative && canonical !== "0" ? `-${canonical}` : canonical;
}

/** Unit: 10^-9. Rounded up. */
function parseAmount(digits: string, suffix: string): bigint | undefined {
  const [whole = "", fraction = ""] = digits.split(".");
  const mantissa = BigInt(`${whole}${fraction}` || "0");
  const binary = BINARY.indexOf(suffix as (typeof BINARY)[number]);
  if (binary > 0) return scale(mantissa * 1024n ** BigInt(binary), NANO - fraction.length);
  const exponent = exponentOf(suffix);
  return Math.abs(exponent) > MAX_LENGTH ? undefined : scale(mantissa, exponent + NANO - fraction.length);
}

function exponentOf(suffix: string): number {
  if (/^[eE]./.test(suffix)) return Number(suffix.slice(1));
  return (DECIMAL.indexOf(suffix as (typeof DECIMAL)[number]) - ONE) * 3;
}

function scale(value: bigint, powerOfTen: number): bigint {
  if (powerOfTen >= 0) return value * 10n ** BigInt(powerOfTen);
  const divisor = 10n ** BigInt(-powerOfTen);
  return (value + divisor - 1n) / divisor;
}

/** The canonical form of an amount, not below 0. `suffix` says in what: "Ki" in powers of 1024, "e0" as an exponent. Unit: 10^-9. */
export function renderQuantity(nanos: bigint, suffix: string): string {
  if (nanos === 0n) return "0";
  if (/^[eE]./.test(suffix)) return renderExponent(nanos);
  const isBinary = suffix.endsWith("i");
  // Small amounts with binary suffixes are written in decimals, so that nothing of them is rounded away.
  if (isBinary && nanos >= 1024n * 1_000_000_000n) return renderBinary(scale(nanos, -NANO));
  return renderDecimal(nanos);
}

function renderDecimal(nanos: bigint): string {
  let [value, at] = [nanos, 0];
  while (at < DECIMAL.length - 1 && value % 1000n === 0n) {
    value /= 1000n;
    at++;
  }
  return `${value}${DECIMAL[at] ?? ""}`;
}

function renderBinary(whole: bigint): string {
  let [value, at] = [whole, 0];
  while (at < BINARY.length - 1 && value % 1024n === 0n) {
    value /= 1024n;
    at++;
  }
  return `${value}${BINARY[at] ?? ""}`;
}

/** Exponents are multiples of three, as engineers write them. */
function renderExponent(nanos: bigint): string {
  let [value, exponent] = [nanos, -NANO];
  while (value % 1000n === 0n) {
    value /= 1000n;
    exponent += 3;
  }
  return exponent === 0 ? String(value) : `${value}e${exponent}`;
}
