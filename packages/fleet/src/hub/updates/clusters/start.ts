import { untilAborted } from "@fairlead/base/abortable.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { untilFirstObject } from "@fairlead/kube/informer/first-object.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { AUTO_UPGRADE_PROFILES, GATES, UPDATE_RUNS } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { CompileRule } from "#updates/clusters/judge.ts";
import type { HubInformers } from "../../informers.ts";
import { keepRunning } from "../../keep-running.ts";
import { createUpgradeProfiles } from "./profiles.ts";
import { createUpdateRuns } from "./reconcile.ts";

/** Strategies and catalogs say nothing without these; gates may be left of runs that are gone. */
const USED_BY = { awaited: [UPDATE_RUNS, AUTO_UPGRADE_PROFILES], left: [GATES] };

/** Update runs of clusters, and the profiles that create them, from the first object on. Their informers are not started before. */
export function startUpdates(
  parts: {
    readonly client: KubeClient;
    readonly informers: HubInformers;
    readonly events: EventRecorder;
    readonly compile: CompileRule | undefined;
    readonly deps: RuntimeDeps;
  },
  signal: AbortSignal,
): AsyncDisposable {
  const { client, deps } = parts;
  const run = async (running: AbortSignal): Promise<void> => {
    await untilFirstObject(client, USED_BY, deps, running);
    await using stack = new AsyncDisposableStack();
    for (const it of [createUpdateRuns(parts), createUpgradeProfiles(parts)])
      await stack.use(it).start(running);
    await untilAborted(running);
  };
  return keepRunning("the controllers of update runs", run, deps, signal);
}
