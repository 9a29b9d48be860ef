import type { Duration, Timestamp } from "../value.ts";

/** A double as Go's `%g` with the least digits that tell it from its neighbours. */
export function formatDouble(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (Object.is(value, -0)) return "-0";
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-4 || magnitude >= 1e21)) {
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

/** With `digits` behind the point, halves to the even digit as the exact value has it. */
export function toFixed(value: number, digits: number): string {
  if (digits <= 100 && Math.abs(value) < 1e21) return signed(value, Math.abs(value).toFixed(digits));
  const [whole = "", fraction = ""] = exactDecimal(Math.abs(value)).split(".");
  const text = fraction === "" ? whole : `${whole}.${fraction}`;
  const shown = Math.abs(value) < 1e21 ? Math.abs(value).toFixed(100) : text;
  const [left = "", right = ""] = shown.split(".");
  return signed(value, digits === 0 ? left : `${left}.${right.padEnd(digits, "0").slice(0, digits)}`);
}

export function toScientific(value: number, digits: number): string {
  const text = Math.abs(value).toExponential(Math.min(digits, 100));
  const [mantissa = "", exponent = ""] = text.split("e");
  const padded = digits > 100 ? mantissa + "0".repeat(digits - 100) : mantissa;
  return signed(value, `${padded}e${exponent.charAt(0)}${exponent.slice(1).padStart(2, "0")}`);
}

function signed(value: number, magnitude: string): string {
  return value < 0 || Object.is(value, -0) ? `-${magnitude}` : magnitude;
}

/** Of a double that is whole, which those from 2^53 on are. */
function exactDecimal(value: number): string {
  return BigInt(value).toString();
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
  const digits = fraction === 0 ? "" : `.${String(fraction).padStart(9, "0").replace(/0+$/, "")}`;
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
