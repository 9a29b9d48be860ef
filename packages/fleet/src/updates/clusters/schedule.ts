import { type ScheduledStart, type Weekday, WEEKDAYS } from "#api/fairlead.dev/v1alpha1/updates.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const WEEK_MS = 7 * DAY_MS;
/** A Sunday, 00:00 UTC, from which weeks are counted: 4 January 1970. */
const FIRST_SUNDAY_MS = 3 * DAY_MS;

/** "+05:30" in milliseconds; "Z" is 0. */
function offsetMs(text: string): number {
  const [, sign, hours, minutes] = /^([+-])(\d\d):(\d\d)$/.exec(text) ?? [];
  const ms = Number(hours ?? 0) * HOUR_MS + Number(minutes ?? 0) * MINUTE_MS;
  return sign === "-" ? -ms : ms;
}

function timeMs(text: string): number {
  const [hours = "0", minutes = "0"] = text.split(":");
  return Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS;
}

/** The next time at or after `fromMs` that is `phaseMs` after the beginning of a period. */
function nextAt(fromMs: number, phaseMs: number, periodMs: number): number {
  return phaseMs + Math.ceil((fromMs - phaseMs) / periodMs) * periodMs;
}

function weeklyPhase(day: Weekday, time: string, offset: string): number {
  return FIRST_SUNDAY_MS + WEEKDAYS.indexOf(day) * DAY_MS + timeMs(time) - offsetMs(offset);
}

/** When a gate completes that was reached at `fromMs`. */
export function nextStart({ startDay, startTime, utcOffset }: ScheduledStart, fromMs: number): number {
  return nextAt(fromMs, weeklyPhase(startDay, startTime, utcOffset), WEEK_MS);
}

interface Window {
  readonly phaseMs: number;
  readonly periodMs: number;
  readonly lengthMs: number;
}

const WINDOW =
  /^(daily|sunday|monday|tuesday|wednesday|thursday|friday|saturday) ([01]\d|2[0-3]):([0-5]\d)(Z|[+-](?:0\d|1[0-4]):[0-5]\d) (\d{1,2})h$/i;

/**
 * Parses maintenance windows: "Saturday 02:00+01:00 4h" or "daily 22:00Z 6h", several with commas between them.
 *
 * @returns Undefined if a window cannot be read.
 */
export function parseWindows(text: string): readonly Window[] | undefined {
  const windows = text.split(",").map((it) => {
    const [, day, hours, minutes, offset, length] = WINDOW.exec(it.trim()) ?? [];
    if (day === undefined || offset === undefined) return undefined;
    const time = `${hours}:${minutes}`;
    const name = WEEKDAYS.find((one) => one.toLowerCase() === day.toLowerCase());
    const lengthMs = Number(length) * HOUR_MS;
    if (lengthMs === 0 || lengthMs > DAY_MS) return undefined;
    if (name === undefined) return { phaseMs: timeMs(time) - offsetMs(offset), periodMs: DAY_MS, lengthMs };
    return { phaseMs: weeklyPhase(name, time, offset), periodMs: WEEK_MS, lengthMs };
  });
  return windows.includes(undefined) ? undefined : windows.filter((it) => it !== undefined);
}

/** Whether upgrades of a member may begin. "none": it has no windows. */
export type WindowState =
  | { readonly is: "open" | "none" | "unreadable" }
  | { readonly is: "closed"; readonly opensAtMs: number };

export function windowAt(text: string | undefined, nowMs: number): WindowState {
  if (text === undefined) return { is: "none" };
  const windows = parseWindows(text);
  if (windows === undefined) return { is: "unreadable" };
  const isOpen = windows.some(
    ({ phaseMs, periodMs, lengthMs }) => nextAt(nowMs - lengthMs + 1, phaseMs, periodMs) <= nowMs,
  );
  if (isOpen) return { is: "open" };
  return {
    is: "closed",
    opensAtMs: Math.min(...windows.map((it) => nextAt(nowMs, it.phaseMs, it.periodMs))),
  };
}

const SOON_MS = 4 * HOUR_MS;

/** The order within a group: an open window, one that opens within four hours, none, a closed one. */
export function windowRank(window: WindowState, nowMs: number): number {
  if (window.is === "open") return 0;
  if (window.is === "none") return 2;
  return window.is === "closed" && window.opensAtMs - nowMs <= SOON_MS ? 1 : 3;
}
