/** What is looked at before anything is changed. */
export const CHECKS = ["version", "permissions", "hub", "cidrs", "clock", "reachability"] as const;
export type CheckName = (typeof CHECKS)[number];

export interface Finding {
  readonly check: CheckName;
  /** "unknown": it cannot be determined, which does not stop the command. */
  readonly status: "ok" | "warning" | "failed" | "unknown" | "skipped";
  /** What was checked, what was found and, if possible, what to do. */
  readonly message: string;
}
