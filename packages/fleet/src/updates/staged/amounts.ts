import type { IntOrPercent } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** How many clusters of a stage are updated at a time: a percentage rounds down, to 1 at least. Default: 1. */
export function concurrencyOf(max: IntOrPercent | undefined, clusters: number): number {
  return Math.max(1, Math.floor(resolve(max ?? 1, clusters)));
}

/** How many clusters of a stage may fail: a percentage rounds up. Default: 0. */
export function tolerance(max: IntOrPercent | undefined, clusters: number): number {
  return Math.ceil(resolve(max ?? 0, clusters));
}

function resolve(amount: IntOrPercent, of: number): number {
  if (typeof amount === "number") return amount;
  // Multiplied first: 0.07 * 100 is more than 7.
  return amount.endsWith("%") ? (Number.parseInt(amount, 10) * of) / 100 : Number.parseInt(amount, 10);
}
