import { FleetError } from "#errors.ts";

/** Reads a whole number out of a flag. @throws {FleetError} `OPTION_INVALID` naming the flag and its range. */
export function parseWhole(
  flag: string,
  text: string,
  range: { readonly min: number; readonly max: number },
): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.min && value <= range.max) return value;
  throw new FleetError(
    "OPTION_INVALID",
    `${flag} must be a whole number from ${range.min} to ${range.max}, got ${JSON.stringify(text)}`,
  );
}
