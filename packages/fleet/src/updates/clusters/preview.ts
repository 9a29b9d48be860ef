import type { StrategySpec, UpdateRun, UpdateRunStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { advance } from "./advance.ts";
import { decide } from "./members.ts";
import type { Facts, Walk } from "./walk.ts";

/** What a run would do if it was started now. */
export interface Preview {
  readonly status: UpdateRunStatus;
  /** What would become of each member when its turn comes: "begins", or why it does not. */
  readonly verdicts: ReadonlyMap<string, string>;
}

export function previewRun(run: UpdateRun, strategy: StrategySpec | undefined, facts: Facts): Preview {
  const { status } = advance(run, strategy, facts);
  const walk: Walk = { run, status, attempt: status.attempt ?? 1, isStopping: false, facts, again: () => {} };
  const members = status.stages.flatMap((it) => it.groups.flatMap((group) => group.members));
  return { status, verdicts: new Map(members.map((it) => [it.name, verdictOf(walk, it.name)])) };
}

function verdictOf(walk: Walk, name: string): string {
  // Measurements are reported once a run has started.
  const decision = decide(walk, name, "");
  switch (decision.is) {
    case "begin":
      return "begins";
    case "skip":
      return `is skipped: ${decision.message}`;
    case "wait":
      return `waits: ${decision.message}`;
    case "fail":
      return `fails: ${decision.message}`;
    default:
      return decision satisfies never;
  }
}
