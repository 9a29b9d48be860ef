import { civil, type Civil } from "../eval/text.ts";
import type { Declaration } from "../function.ts";
import { CelError, type Duration, type Timestamp } from "../value.ts";

/** The parts of times, in UTC or in a zone that is named, and of durations. */

type Part = (of: Civil) => number;

function partOf(part: Part): (time: Timestamp) => bigint {
  return ({ nanos }) => BigInt(part(civil(nanos)));
}

function partIn(part: Part): (time: Timestamp, zone: string) => bigint {
  return ({ nanos }, zone) => BigInt(part(civil(nanos + offsetOf(zone, nanos))));
}

const MINUTE = 60_000_000_000n;
const OFFSET = /^([+-]?\d+):([+-]?\d+)$/;

/** Unit: nanoseconds east of UTC. */
function offsetOf(zone: string, nanos: bigint): bigint {
  if (!zone.includes(":")) return offsetOfName(zone, nanos);
  const [, hours = "", minutes = ""] = OFFSET.exec(zone) ?? [];
  if (hours === "") {
    const [first = "", second = ""] = zone.split(":", 2);
    const wrong = /^[+-]?\d+$/.test(first) ? zone.slice(zone.indexOf(":") + 1) : first;
    throw new CelError(
      `strconv.Atoi: parsing ${JSON.stringify(second === "" ? wrong : wrong)}: invalid syntax`,
    );
  }
  const whole = BigInt(hours.replace("+", "")) * 60n;
  const part = BigInt(minutes.replace("+", ""));
  return (zone.startsWith("-") ? whole - part : whole + part) * MINUTE;
}

function offsetOfName(zone: string, nanos: bigint): bigint {
  if (zone === "" || zone === "UTC") return 0n;
  const second = 1_000_000_000n;
  const date = new Date(Number(nanos / 1_000_000n));
  let local: string;
  try {
    const format = new Intl.DateTimeFormat("sv-SE", {
      timeZone: zone,
      dateStyle: "short",
      timeStyle: "medium",
    });
    local = format.format(date);
  } catch {
    throw new CelError(`unknown time zone ${zone}`);
  }
  const seconds = BigInt(Date.parse(`${local.replace(" ", "T")}Z`)) / 1000n;
  return (seconds - BigInt(Math.floor(date.getTime() / 1000))) * second;
}

function timePart(name: string, id: string, part: Part, zoned = `${id}_with_tz`): Declaration {
  return [
    name,
    [`.${id}(timestamp) -> int`, partOf(part)],
    [`.${zoned}(timestamp, string) -> int`, partIn(part)],
  ];
}

/** Whole ones. Unit: nanoseconds. */
function durationPart(unit: bigint): (of: Duration) => bigint {
  return ({ nanos }) => nanos / unit;
}

export const TIMES: readonly Declaration[] = [
  timePart("getFullYear", "timestamp_to_year", (it) => it.year),
  timePart("getMonth", "timestamp_to_month", (it) => it.month - 1),
  timePart("getDayOfYear", "timestamp_to_day_of_year", (it) => it.dayOfYear),
  timePart("getDayOfMonth", "timestamp_to_day_of_month", (it) => it.day - 1),
  timePart("getDate", "timestamp_to_day_of_month_1_based", (it) => it.day),
  timePart("getDayOfWeek", "timestamp_to_day_of_week", (it) => it.weekday),
  timePart("getHours", "timestamp_to_hours", (it) => it.hours),
  timePart("getMinutes", "timestamp_to_minutes", (it) => it.minutes),
  timePart("getSeconds", "timestamp_to_seconds", (it) => it.seconds, "timestamp_to_seconds_tz"),
  timePart("getMilliseconds", "timestamp_to_milliseconds", (it) => Math.floor(it.fraction / 1e6)),
  ["getHours", [".duration_to_hours(duration) -> int", durationPart(60n * MINUTE)]],
  ["getMinutes", [".duration_to_minutes(duration) -> int", durationPart(MINUTE)]],
  ["getSeconds", [".duration_to_seconds(duration) -> int", durationPart(1_000_000_000n)]],
  ["getMilliseconds", [".duration_to_milliseconds(duration) -> int", durationPart(1_000_000n)]],
];
