import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { eventsOfPlacement } from "#placement/status/events.ts";
import { eventOfRun } from "#updates/staged/events.ts";
import type { PlacementInformers } from "./informers.ts";

/** Records Events of placements and runs for what changes while this replica leads. The recorder bounds them for each object. */
export function recordPlacementEvents(
  { cluster, namespaced }: Pick<PlacementInformers, "cluster" | "namespaced">,
  events: EventRecorder,
): Disposable {
  const stack = new DisposableStack();
  for (const { scope, placements, runs } of [cluster, namespaced]) {
    stack.use(
      placements.subscribe(({ before, after }) => {
        if (before === undefined || after === undefined) return;
        for (const it of eventsOfPlacement(before, after, scope.conditionPrefix))
          events.record(scope.placements, after, it);
      }),
    );
    stack.use(
      runs.subscribe(({ before, after }) => {
        if (before === undefined || after === undefined) return;
        const event = eventOfRun(before, after);
        if (event !== undefined) events.record(scope.runs, after, event);
      }),
    );
  }
  return stack;
}
