import { joinLines } from "@fairlead/base/print.ts";
import type { JoinPlan } from "./join.ts";
import type { Change } from "./steps.ts";

const VERBS: Readonly<Record<Change["verb"], string>> = {
  create: "+ create",
  update: "~ change",
  delete: "- delete",
  issue: "+ issue ",
  none: "= keep  ",
};

/** The text of `fairlead join --dry-run`. */
export function renderPlan({ steps }: JoinPlan): string {
  const lines = steps.flatMap(({ step, changes }) => [
    step,
    ...changes.map(({ cluster, verb, kind, name, note }) => {
      const more = note === undefined ? "" : ` (${note})`;
      return `  ${VERBS[verb]} ${kind} ${name} in ${cluster}${more}`;
    }),
  ]);
  return `${joinLines(lines)}\nNothing was changed.\n`;
}
