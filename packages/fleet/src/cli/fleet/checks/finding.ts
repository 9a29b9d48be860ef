/** What is looked at before anything is changed. */
export const CHECKS = ["version", "permissions", "hub", "cidrs", "clock", "reachability"] as const;
export type CheckName = (typeof CHECKS)[number];

export interface Finding {
  readonly check: CheckName;
  /** "unknown": it could not be found out, and that is no reason to stop. */
  readonly status: "ok" | "warning" | "failed" | "unknown" | "skipped";
  /** What was looked at, what was found and, where somebody can act, what to do. */
  readonly message: string;
}
