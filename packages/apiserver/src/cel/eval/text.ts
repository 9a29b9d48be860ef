import type { Duration, Timestamp } from "../value.ts";
import { withoutTrailing } from "@fairlead/base/text.ts";

/** From here on doubles are written with an exponent, if that is what their digits are. */
const LARGE = 1e6;

/** Formats a double as Go's `%g` does: the shortest text that parses to the same double. */
export function formatDouble(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (Object.is(value, -0)) return "-0";
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-4 || magnitude >= LARGE)) {
    return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return plain(value);
}

/** The shortest digits of a double, with no exponent. */
function plain(value: number): string {
  const text = String(value);
  if (!text.includes("e")) return text;
  const [mantissa = "", exponent = "0"] = text.split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const sign = value < 0 ? "-" : "";
  const shift = Number(exponent);
  if (shift < 0) return `${sign}0.${"0".repeat(-shift - whole.length)}${whole}${fraction}`;
  return `${sign}${whole}${fraction}${"0".repeat(shift - fraction.length)}`;
}

/** With `digits` behind the point; halves go to the even digit. */
export function toFixed(value: number, digits: number): string {
  const { mantissa, exponent } = decompose(Math.abs(value));
  const scaled = mantissa * 10n ** BigInt(digits);
  const rounded = exponent >= 0 ? scaled << BigInt(exponent) : halfEven(scaled, 1n << BigInt(-exponent));
  const text = rounded.toString().padStart(digits + 1, "0");
  const whole = text.slice(0, text.length - digits);
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  return digits === 0 ? sign + whole : `${sign}${whole}.${text.slice(-digits)}`;
}

function halfEven(value: bigint, divisor: bigint): bigint {
  const [whole, rest] = [value / divisor, (value % divisor) * 2n];
  return rest > divisor || (rest === divisor && whole % 2n === 1n) ? whole + 1n : whole;
}

/** A finite double as `mantissa * 2^exponent`. */
function decompose(value: number): { readonly mantissa: bigint; readonly exponent: number } {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const power = Number((bits >> 52n) & 0x7_ffn);
  const fraction = bits & 0xf_ff_ff_ff_ff_ff_ffn;
  return power === 0
    ? { mantissa: fraction, exponent: -1074 }
    : { mantissa: fraction | (1n << 52n), exponent: power - 1075 };
}

/** Seconds as the nearest double has them, as Go's `Duration.Seconds`. */
export function formatDuration({ nanos }: Duration): string {
  const seconds = Number(nanos / 1_000_000_000n) + Number(nanos % 1_000_000_000n) / 1e9;
  return `${plain(seconds)}s`;
}

/** RFC 3339 with as many digits of a second as it takes. */
export function formatTimestamp({ nanos, offset }: Timestamp): string {
  const local = nanos + BigInt(offset) * 60_000_000_000n;
  const { year, month, day, hours, minutes, seconds, fraction } = civil(local);
  const two = (it: number): string => String(it).padStart(2, "0");
  const date = `${String(year).padStart(4, "0")}-${two(month)}-${two(day)}`;
  const digits = fraction === 0 ? "" : `.${withoutTrailing(String(fraction).padStart(9, "0"), "0")}`;
  const distance = Math.abs(offset);
  const zone =
    offset === 0 ? "Z" : `${offset < 0 ? "-" : "+"}${two(Math.floor(distance / 60))}:${two(distance % 60)}`;
  return `${date}T${two(hours)}:${two(minutes)}:${two(seconds)}${digits}${zone}`;
}

/** The parts of a time. `fraction` is nanoseconds. */
export interface Civil {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hours: number;
  readonly minutes: number;
  readonly seconds: number;
  readonly fraction: number;
  /** 0 is Sunday. */
  readonly weekday: number;
  /** 0 is the first of January. */
  readonly dayOfYear: number;
}

export function civil(nanos: bigint): Civil {
  const fraction = ((nanos % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const date = new Date(Number((nanos - fraction) / 1_000_000n));
  const year = date.getUTCFullYear();
  const startOfYear = new Date(0);
  startOfYear.setUTCFullYear(year, 0, 1);
  return {
    year,
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    hours: date.getUTCHours(),
    minutes: date.getUTCMinutes(),
    seconds: date.getUTCSeconds(),
    fraction: Number(fraction),
    weekday: date.getUTCDay(),
    dayOfYear: Math.floor((date.getTime() - startOfYear.getTime()) / 86_400_000),
  };
}
