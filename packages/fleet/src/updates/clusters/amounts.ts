/** Amounts of members as strategies write them: "3" or "25%". */

/** Rounded down, at least 1. */
export function resolveConcurrency(text: string, members: number): number {
  return text.endsWith("%") ? Math.max(1, Math.floor((members * percent(text)) / 100)) : Number(text);
}

/** Rounded up. */
export function resolveFailures(text: string | undefined, members: number): number {
  if (text === undefined) return 0;
  return text.endsWith("%") ? Math.ceil((members * percent(text)) / 100) : Number(text);
}

function percent(text: string): number {
  return Number(text.slice(0, -1));
}
