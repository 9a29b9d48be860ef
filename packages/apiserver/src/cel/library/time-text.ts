import type { Timestamp } from "../value.ts";
import { Duration } from "../value.ts";
import { toTimestamp } from "./operators.ts";

/** Unit: nanoseconds. */
const UNITS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1000n,
  µs: 1000n,
  μs: 1000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};
const PART = /(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)/y;
/** Far more digits than a duration of 292 years has. */
const MAX_LENGTH = 1000;

/** Parses a duration in Go's format, `1h30m` or `-1.5s`; undefined if invalid. */
export function parseDuration(text: string): Duration | undefined {
  const sign = /^[-+]/.test(text) ? text.charAt(0) : "";
  const rest = text.slice(sign.length);
  if (rest === "0") return new Duration(0n);
  if (rest === "" || rest.length > MAX_LENGTH) return undefined;
  const nanos = sumOfParts(rest);
  if (nanos === undefined) return undefined;
  const signed = sign === "-" ? -nanos : nanos;
  return BigInt.asIntN(64, signed) === signed ? new Duration(signed) : undefined;
}

function sumOfParts(rest: string): bigint | undefined {
  let nanos = 0n;
  let at = 0;
  while (at < rest.length) {
    PART.lastIndex = at;
    const [found, whole = "", fraction = "", unit = ""] = PART.exec(rest) ?? [];
    if (found === undefined || whole + fraction === "") return undefined;
    const scale = UNITS[unit] ?? 0n;
    nanos +=
      BigInt(whole || "0") * scale + (BigInt(fraction || "0") * scale) / 10n ** BigInt(fraction.length);
    at += found.length;
  }
  return nanos;
}

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))$/;

/**
 * Parses an RFC 3339 time; undefined if invalid.
 *
 * @throws {CelError} before the year 1.
 */
export function parseTimestamp(text: string): Timestamp | undefined {
  const found = RFC3339.exec(text);
  if (found === null) return undefined;
  const [year = 0, month = 0, day = 0, ...clock] = found.slice(1, 7).map(Number);
  const offset = offsetOf(found.slice(8));
  const date = dateOf(year, month, day);
  if (date === undefined || !isClock(clock) || offset === undefined) return undefined;
  const [hours = 0, minutes = 0, seconds = 0] = clock;
  date.setUTCHours(hours, minutes - offset, seconds);
  const nanos = BigInt((found[7] ?? "").slice(0, 9).padEnd(9, "0"));
  return toTimestamp(BigInt(date.getTime()) * 1_000_000n + nanos, offset);
}

/** Its midnight; undefined for what no day is. */
function dateOf(year: number, month: number, day: number): Date | undefined {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date : undefined;
}

function isClock([hours = 0, minutes = 0, seconds = 0]: readonly number[]): boolean {
  return hours <= 23 && minutes <= 59 && seconds <= 59;
}

/** Unit: minutes east of UTC; undefined for what no zone is. */
function offsetOf([sign, hours = "0", minutes = "0"]: readonly (string | undefined)[]): number | undefined {
  if (Number(hours) > 24 || Number(minutes) > 60) return undefined;
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}
