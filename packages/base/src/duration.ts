const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

const PART = String.raw`(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)`;
const WHOLE = new RegExp(`^\\+?(?:${PART})+$`);
/** More digits than any duration has that is meant. Unit: characters. */
const MAX_LENGTH = 64;

/** Reads a duration that is not negative as Go writes it ("1h30m", "10s", "0"). Undefined for other text. Unit: milliseconds. */
export function parseDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (text.length > MAX_LENGTH || !WHOLE.test(text)) return undefined;
  let totalMs = 0;
  for (const [, count = "", unit = ""] of text.replace("+", "").matchAll(new RegExp(PART, "gy")))
    totalMs += Number(count) * (UNIT_MS[unit] ?? 0);
  return totalMs;
}
