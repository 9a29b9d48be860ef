/** Requests that the demo makes, and what came back. */

/** The reply of the examples' echo server: its own identity and the client's address. */
export interface Answer {
  readonly cluster: string;
  readonly pod: string;
  readonly clientAddress: string;
}

/** One try of the stream of requests. */
export interface Try {
  /** Unit: milliseconds since the Unix epoch, when the request began. */
  readonly startedAtMs: number;
  readonly cluster: string | undefined;
}

/**
 * A shell loop that makes `count` requests, one every `everyMs`, and prints a line for each: its start time and the
 * reply, or `-`. Each request uses a new connection and has a timeout of one second.
 */
export function requestLoop(url: string, count: number, everyMs: number): string {
  const pause = everyMs === 0 ? "" : `sleep ${everyMs / 1000}; `;
  return [
    `i=0; while [ $i -lt ${count} ]; do i=$((i+1)); t=$(date +%s%3N);`,
    `a=$(curl -s -m 1 -H 'Accept: application/json' ${url}) || a=-;`,
    `echo "$t $a"; ${pause}done`,
  ].join(" ");
}

/** A try, and what came back. */
export interface ParsedTry extends Try {
  readonly answer: Answer | undefined;
  /** What was printed in place of an answer: that a request failed is not yet the reason. */
  readonly failure: string | undefined;
}

/** Reads one line of the loop; undefined for anything else. */
export function parseTry(line: string): ParsedTry | undefined {
  const match = /^(\d{13}) (.*)$/.exec(line.trim());
  if (match === null) return undefined;
  const [, startedAt, text = ""] = match;
  const answer = parseAnswer(text);
  const failure = answer === undefined ? text : undefined;
  return { startedAtMs: Number(startedAt), cluster: answer?.cluster, answer, failure };
}

export function parseAnswer(text: string): Answer | undefined {
  try {
    const value = JSON.parse(text) as Partial<Answer>;
    if (typeof value.cluster !== "string" || typeof value.pod !== "string") return undefined;
    return { cluster: value.cluster, pod: value.pod, clientAddress: value.clientAddress ?? "?" };
  } catch {
    return undefined;
  }
}

export interface Outage {
  readonly failed: number;
  readonly total: number;
  /** Begin of the last failed request, after the fault. Unit: milliseconds. undefined: none failed. */
  readonly lastFailureAfterMs: number | undefined;
}

/** What a fault at `faultAtMs` did to the requests after it. */
export function summarizeOutage(tries: readonly Try[], faultAtMs: number): Outage {
  const after = tries.filter((it) => it.startedAtMs >= faultAtMs);
  const failures = after.filter((it) => it.cluster === undefined);
  const last = failures.at(-1);
  return {
    failed: failures.length,
    total: after.length,
    lastFailureAfterMs: last === undefined ? undefined : last.startedAtMs - faultAtMs,
  };
}
