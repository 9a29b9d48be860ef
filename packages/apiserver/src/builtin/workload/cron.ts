import { parseDuration } from "@fairlead/base/duration.ts";

/** Schedules of CronJobs, read as the library that Kubernetes uses reads them, with its texts. Source: robfig/cron, v3. */

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/** Minute, hour, day of the month, month, day of the week. */
const FIELDS: readonly Bounds[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, names: MONTHS },
  { min: 0, max: 6, names: DAYS },
];
const DESCRIPTORS = new Set([
  "@yearly",
  "@annually",
  "@monthly",
  "@weekly",
  "@daily",
  "@midnight",
  "@hourly",
]);
const EVERY = "@every ";

/** The error of a schedule; undefined if it is valid. */
export function cronProblem(schedule: string): string | undefined {
  if (schedule === "") return "empty spec string";
  if (schedule.startsWith("@")) return descriptorProblem(schedule);
  const fields = schedule.split(/\s/).filter((it) => it !== "");
  if (fields.length !== FIELDS.length) {
    return `expected exactly ${FIELDS.length} fields, found ${fields.length}: [${fields.join(" ")}]`;
  }
  for (const [at, bounds] of FIELDS.entries()) {
    for (const range of (fields[at] ?? "").split(",")) {
      const problem = range === "" ? undefined : rangeProblem(range, bounds);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

function descriptorProblem(text: string): string | undefined {
  if (DESCRIPTORS.has(text)) return undefined;
  if (!text.startsWith(EVERY)) return `unrecognized descriptor: ${text}`;
  const duration = text.slice(EVERY.length);
  if (parseDuration(duration) !== undefined) return undefined;
  return `failed to parse duration ${text}: time: invalid duration ${JSON.stringify(duration)}`;
}

function rangeProblem(text: string, bounds: Bounds): string | undefined {
  try {
    return boundsProblem(readRange(text, bounds), text, bounds);
  } catch (error) {
    if (error instanceof CronError) return error.message;
    throw error;
  }
}

class CronError extends Error {}

interface Ends {
  readonly start: number;
  readonly end?: number;
}

interface Range extends Ends {
  readonly end: number;
  readonly step: number;
}

function boundsProblem({ start, end, step }: Range, text: string, { min, max }: Bounds): string | undefined {
  if (start < min) return `beginning of range (${start}) below minimum (${min}): ${text}`;
  if (end > max) return `end of range (${end}) above maximum (${max}): ${text}`;
  if (start > end) return `beginning of range (${start}) beyond end of range (${end}): ${text}`;
  return step === 0 ? `step of range should be a positive number: ${text}` : undefined;
}

/** "*", "5", "1-5", "mon-fri", each with "/2" or without. */
function readRange(text: string, bounds: Bounds): Range {
  const [range = "", ...steps] = text.split("/");
  const { start, end } = readEnds(range, text, bounds);
  const [step] = steps;
  if (step === undefined) return { start, end: end ?? start, step: 1 };
  if (steps.length > 1) throw new CronError(`too many slashes: ${text}`);
  // "5/15" is "5-59/15".
  return { start, end: end ?? bounds.max, step: readValue(step, undefined, 0) };
}

function readEnds(range: string, text: string, { min, max, names }: Bounds): Ends {
  const [low = "", ...highs] = range.split("-");
  if (low === "*" || low === "?") return { start: min, end: max };
  if (highs.length > 1) throw new CronError(`too many hyphens: ${text}`);
  const start = readValue(low, names, min);
  const [high] = highs;
  return high === undefined ? { start } : { start, end: readValue(high, names, min) };
}

/** A number, or the name of one; the first name stands for `first`. */
function readValue(text: string, names: readonly string[] | undefined, first: number): number {
  const named = names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0) return first + named;
  const isNumber = /^[+-]?[0-9]+$/.test(text);
  const value = Number(text);
  if (isNumber && value < 0) throw new CronError(`negative number (${value}) not allowed: ${text}`);
  if (isNumber && value <= Number.MAX_SAFE_INTEGER) return value;
  const why = isNumber ? "value out of range" : "invalid syntax";
  throw new CronError(
    `failed to parse int from ${text}: strconv.Atoi: parsing ${JSON.stringify(text)}: ${why}`,
  );
}
