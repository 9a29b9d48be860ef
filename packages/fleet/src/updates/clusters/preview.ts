import type {
  HealthCheck,
  StrategySpec,
  UpdateRun,
  UpdateRunStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { advance } from "./advance.ts";
import { backProblem } from "./failure.ts";
import { checkOf, decide } from "./members.ts";
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
  const verdicts = status.stages.flatMap((stage) =>
    stage.groups.flatMap((group) =>
      group.members.map(({ name }) => [name, verdictOf(walk, name, checkOf(walk, stage.name))] as const),
    ),
  );
  return { status, verdicts: new Map(verdicts) };
}

function verdictOf(walk: Walk, name: string, check: HealthCheck | undefined): string {
  // Measurements are reported once a run has started.
  const decision = decide(walk, name, "");
  const { type } = walk.run.spec.managedClusterUpdate.upgrade;
  const problem = check?.onFailure === "Rollback" ? backProblem(walk, name, type) : undefined;
  switch (decision.is) {
    case "begin":
      return problem === undefined ? "begins" : `begins, and cannot be rolled back: ${problem}`;
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
