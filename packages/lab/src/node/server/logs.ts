import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { followFile, readFrom } from "./follow.ts";
import { LOG_TIMES_FILE, logStart } from "../container/log-bound.ts";
import { parseTimes, timeAt, type TimeMark } from "../container/log-times.ts";

/** What `kubectl logs` may ask for. */
export interface LogWish {
  readonly follow: boolean;
  readonly timestamps: boolean;
  readonly tailLines: number | undefined;
  readonly limitBytes: number | undefined;
  /** Unit: milliseconds since the Unix epoch. */
  readonly sinceMs: number | undefined;
}

/** Reads the query of a log request; returns a text if the query is invalid. */
export function readLogWish(query: URLSearchParams, nowMs: number): LogWish | string {
  const number = (name: string, min: number): number | undefined => {
    const text = query.get(name);
    if (text === null || text === "") return undefined;
    const value = Number(text);
    return Number.isInteger(value) && value >= min ? value : Number.NaN;
  };
  const numbers = {
    tailLines: number("tailLines", 0),
    limitBytes: number("limitBytes", 1),
    sinceSeconds: number("sinceSeconds", 1),
  };
  const wrong = Object.entries(numbers).find(([, value]) => Number.isNaN(value));
  if (wrong !== undefined) return `${wrong[0]}: Invalid value: ${JSON.stringify(query.get(wrong[0]))}`;
  const sinceTime = query.get("sinceTime");
  const sinceTimeMs = sinceTime === null || sinceTime === "" ? undefined : Date.parse(sinceTime);
  if (Number.isNaN(sinceTimeMs)) return `sinceTime: Invalid value: ${JSON.stringify(sinceTime)}`;
  const { sinceSeconds } = numbers;
  return {
    follow: isTrue(query.get("follow")),
    timestamps: isTrue(query.get("timestamps")),
    tailLines: numbers.tailLines,
    limitBytes: numbers.limitBytes,
    sinceMs: sinceSeconds === undefined ? sinceTimeMs : nowMs - sinceSeconds * 1000,
  };
}

function isTrue(value: string | null): boolean {
  return value === "1" || value === "true";
}

/**
 * The log of a container's run as it was asked for.
 *
 * @param ended - Aborts when the container has ended: a followed log ends with it.
 */
export async function* readLog(folder: string, wish: LogWish, ended: AbortSignal): AsyncGenerator<Buffer> {
  const path = join(folder, "log");
  const first = logStart(folder);
  const start = Math.max(first, tailOffset(path, first, wish.tailLines), sinceOffset(folder, wish.sinceMs));
  const chunks = wish.follow ? followFile(path, start, ended) : readFrom(path, start);
  const stamped = wish.timestamps ? stampLines(chunks, start, folder) : chunks;
  let left = wish.limitBytes ?? Infinity;
  for await (const chunk of stamped) {
    yield chunk.length > left ? chunk.subarray(0, left) : chunk;
    left -= chunk.length;
    if (left <= 0) return;
  }
}

/** Where the last `lines` lines begin. */
function tailOffset(path: string, first: number, lines: number | undefined): number {
  const { size } = statSync(path);
  if (lines === undefined) return first;
  if (lines === 0) return size;
  const fd = openSync(path, "r");
  try {
    let left = lines;
    // A newline that ends the file ends its last line; it begins none.
    for (const at of newlinesBackward(fd, first, size - 1)) {
      left--;
      if (left === 0) return at + 1;
    }
    return first;
  } finally {
    closeSync(fd);
  }
}

/** Offsets of the newlines from `first` up to `end`, the last one first. */
function* newlinesBackward(fd: number, first: number, end: number): Generator<number> {
  const block = Buffer.alloc(64 * 1024);
  for (let to = end; to > first;) {
    const from = Math.max(first, to - block.length);
    const part = block.subarray(0, readSync(fd, block, 0, to - from, from));
    for (let at = part.length - 1; at >= 0; at--) if (part[at] === 0x0a) yield from + at;
    to = from;
  }
}

/** Where the lines begin that were written at `sinceMs` or later. */
function sinceOffset(folder: string, sinceMs: number | undefined): number {
  if (sinceMs === undefined) return 0;
  const mark = readTimes(folder).find((it) => it.atMs >= sinceMs);
  return mark?.offset ?? statSync(join(folder, "log")).size;
}

async function* stampLines(
  chunks: Iterable<Buffer> | AsyncIterable<Buffer>,
  start: number,
  folder: string,
): AsyncGenerator<Buffer> {
  let offset = start;
  let isLineStart = true;
  for await (const chunk of chunks) {
    const times = readTimes(folder);
    const parts: Buffer[] = [];
    for (let at = 0; at < chunk.length;) {
      const newline = chunk.indexOf(0x0a, at);
      const end = newline < 0 ? chunk.length : newline + 1;
      if (isLineStart) parts.push(Buffer.from(`${renderTime(timeAt(times, offset + at))} `));
      parts.push(chunk.subarray(at, end));
      isLineStart = newline >= 0;
      at = end;
    }
    offset += chunk.length;
    yield Buffer.concat(parts);
  }
}

function readTimes(folder: string): readonly TimeMark[] {
  const path = join(folder, LOG_TIMES_FILE);
  return existsSync(path) ? parseTimes(readFileSync(path, "utf8")) : [];
}

/** RFC 3339 with nanoseconds, as the kubelet writes them; ours are known to the millisecond. */
function renderTime(atMs: number): string {
  return new Date(atMs).toISOString().replace("Z", "000000Z");
}
