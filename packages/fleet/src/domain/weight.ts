/** Share of the requests that goes to an exporting cluster. Unit: none; shares are relative. */
export type Weight =
  | { readonly kind: "valid"; readonly weight: number }
  | { readonly kind: "invalid"; readonly message: string };

const MAX_WEIGHT = 1000;

/** Reads the weight annotation of a ServiceExport. Absent means 1. */
export function readWeight(annotation: string | undefined): Weight {
  if (annotation === undefined) return { kind: "valid", weight: 1 };
  const weight = /^[+-]?\d{1,18}$/.test(annotation) ? Number(annotation) : Number.NaN;
  if (weight >= 0 && weight <= MAX_WEIGHT) return { kind: "valid", weight };
  return {
    kind: "invalid",
    message: `the weight must be a whole number from 0 to ${MAX_WEIGHT}, got ${JSON.stringify(annotation.slice(0, 40))}`,
  };
}
