const UNITS = [
  { suffix: "y", ms: 365 * 86_400_000 },
  { suffix: "d", ms: 86_400_000 },
  { suffix: "h", ms: 3_600_000 },
  { suffix: "m", ms: 60_000 },
  { suffix: "s", ms: 1000 },
] as const;

/** From which count a unit is shown alone, and below which it is shown together with the next smaller unit. */
const STEPS = [
  { belowMs: 120_000, units: ["s"] },
  { belowMs: 10 * 60_000, units: ["m", "s"] },
  { belowMs: 3 * 3_600_000, units: ["m"] },
  { belowMs: 8 * 3_600_000, units: ["h", "m"] },
  { belowMs: 48 * 3_600_000, units: ["h"] },
  { belowMs: 8 * 86_400_000, units: ["d", "h"] },
  { belowMs: 2 * 365 * 86_400_000, units: ["d"] },
  { belowMs: 8 * 365 * 86_400_000, units: ["y", "d"] },
] as const;

const LAST_STEP = { belowMs: Infinity, units: ["y"] } as const;

/**
 * A duration as `kubectl get` shows ages: two or three digits that matter (`10s`, `3m4s`, `5h`, `2d3h`, `12d`).
 * Source: k8s.io/apimachinery, pkg/util/duration, `HumanDuration`.
 */
export function humanDuration(ms: number): string {
  // Clocks differ a little between machines; two seconds ahead is no longer a small difference.
  if (ms <= -2000) return "<invalid>";
  let rest = Math.max(0, ms);
  const step = STEPS.find((it) => rest < it.belowMs) ?? LAST_STEP;
  const parts: string[] = [];
  for (const [index, suffix] of step.units.entries()) {
    const unit = UNITS.find((it) => it.suffix === suffix) ?? UNITS[4];
    const count = Math.floor(rest / unit.ms);
    rest -= count * unit.ms;
    if (count > 0 || index === 0) parts.push(`${count}${suffix}`);
  }
  return parts.join("");
}

/** The age of a timestamp; `<unknown>` if it is missing or invalid. */
export function ageOf(timestamp: unknown, nowMs: number): string {
  const atMs = typeof timestamp === "string" ? Date.parse(timestamp) : Number.NaN;
  return Number.isNaN(atMs) ? "<unknown>" : humanDuration(nowMs - atMs);
}
