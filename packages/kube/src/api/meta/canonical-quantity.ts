import { ceilDivide, isExponent, ONE, readQuantity } from "./quantity.ts";

const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"] as const;
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] as const;
const NANO = 9;
/** Unit: 10^-9. */
const MILLI = 10n ** 6n;

/**
 * The canonical form of a quantity: `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`, `1.5Gi` is `1536Mi`. Rounds up to
 * multiples of 10^-9. Undefined if the text is not a quantity. Source: apimachinery, pkg/api/resource.
 */
export function canonicalQuantity(text: string): string | undefined {
  const quantity = readQuantity(text);
  if (quantity === undefined) return undefined;
  const { nanos, suffix } = quantity;
  return nanos < 0n ? `-${renderQuantity(-nanos, suffix)}` : renderQuantity(nanos, suffix);
}

/** The quantity in thousandths, what is smaller being rounded up; undefined where nothing is to be rounded. */
export function roundedQuantity(value: unknown): string | undefined {
  const { nanos = 0n, suffix = "" } = readQuantity(value) ?? {};
  if (nanos % MILLI === 0n) return undefined;
  const rounded = renderQuantity(ceilDivide(nanos < 0n ? -nanos : nanos, MILLI) * MILLI, suffix);
  return nanos < 0n ? `-${rounded}` : rounded;
}

/** The canonical form of an amount, not below 0. `suffix` says in what: "Ki" in powers of 1024, "e0" as an exponent. Unit: 10^-9. */
export function renderQuantity(nanos: bigint, suffix: string): string {
  if (nanos === 0n) return "0";
  if (isExponent(suffix)) return renderExponent(nanos);
  const isBinary = suffix.endsWith("i");
  // Small amounts with binary suffixes are written in decimals, so that nothing of them is rounded away.
  if (isBinary && nanos >= 1024n * ONE) return renderBinary(ceilDivide(nanos, ONE));
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
