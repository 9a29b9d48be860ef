import type { IntOrPercent } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** What an integer, or a percentage of `total`, comes to. A percentage rounds up, as rollouts and budgets have it. */
export function roundedUp(amount: IntOrPercent, total: number): number {
  if (typeof amount === "number") return amount;
  if (!isPercentage(amount)) return Number(amount);
  return Math.ceil((Number(amount.slice(0, -1)) * total) / 100);
}

export function isPercentage(amount: IntOrPercent): amount is string {
  return typeof amount === "string" && amount.endsWith("%");
}
