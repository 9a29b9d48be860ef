/**
 * Differences in answers to requests that no scenario has, by the reason that docs/reference/differences.md gives. The patterns are of lines that the
 * comparison prints: all lines of an answer must be explained.
 */
interface Explanation {
  /** Heading of the paragraph. */
  readonly reason: string;
  readonly lines?: readonly RegExp[];
  /** Of answers with another status, what all of their lines together hold. */
  readonly status?: RegExp;
  /** The same of answers with the same status. */
  readonly answer?: RegExp;
}

export const EXPLAINED: readonly Explanation[] = [
  { reason: "New Nodes have no taint", lines: [/: body\.spec\.taints.*node\.kubernetes\.io\/not-ready/] },
  {
    reason: "Fields behind disabled feature gates have no manager",
    lines: [/\.f:(maxUnavailable|stopSignal): \{\} -> absent$/],
  },
  {
    reason: "Unused initial objects are absent",
    lines: [/\/flowschemas.*: body\.(metadata\.managedFields|status)/],
  },
  { reason: "A generation counts changes alone", lines: [/: body\.metadata\.generation: 2 -> 1$/] },
  {
    reason: "A dry run of a Service finds taken addresses and ports",
    answer: /\/services.*: body\.(message|details\.causes).* -> .*already allocated/,
  },
  {
    reason: "Messages with Go's internals, or without the cause",
    lines: [/: body\.(message|details\.causes\[\d+\]\.message): /],
  },
  {
    reason: "Integers beyond 64 bits are refused",
    status: /cannot unmarshal number|cannot convert int64|quantities must match/,
  },
  {
    reason: "Values of another type have no unknown fields",
    lines: [/ \/apis\/\$id\.example\.com\/.*: headers(\.Warning(\[\d+\])?)?: .*unknown field/],
  },
  { reason: "Applies that end the connection are answered", status: /: status: 0 -> [2-5]/ },
  {
    reason: "The data of a ControllerRevision is merged",
    status: /api field in struct RawExtension/,
  },
  {
    reason: "A dry run of a Service finds taken addresses and ports",
    status: /provided (port|IP) is (already allocated|not in the valid range)/,
  },
];

/** The reason for the differences of one answer; undefined where it has none. */
export function explain(lines: readonly string[]): string | undefined {
  if (lines.some((it) => it.includes(": status: "))) {
    const text = lines.join("\n");
    return EXPLAINED.find((it) => it.status?.test(text) === true)?.reason;
  }
  const answer = EXPLAINED.find((it) => it.answer?.test(lines.join("\n")) === true);
  if (answer !== undefined) return answer.reason;
  const reasons = lines.map((line) =>
    EXPLAINED.find((it) => it.lines?.some((pattern) => pattern.test(line))),
  );
  return reasons.includes(undefined) ? undefined : reasons[0]?.reason;
}
