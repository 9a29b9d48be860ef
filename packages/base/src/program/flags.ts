import { FleetError } from "#errors.ts";

/** Reads a whole number out of a flag. @throws {FleetError} `OPTION_INVALID` naming the flag and its range. */
export function parseWhole(
  flag: string,
  text: string,
  range: { readonly min: number; readonly max: number } = { min: 0, max: 999_999_999 },
): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.min && value <= range.max) return value;
  throw new FleetError(
    "OPTION_INVALID",
    `${flag} must be a whole number from ${range.min} to ${range.max}, got ${JSON.stringify(text)}`,
  );
}

/** The range of TCP and UDP ports; 0 asks the kernel for a free one. */
export const PORTS = { min: 0, max: 65_535 } as const;

/** Gathers the values of a flag that may be repeated. */
export function collect(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), text];
}
