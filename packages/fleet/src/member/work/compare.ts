import { hasCode } from "@fairlead/base/errors.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import { WORK_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { PatchDetail } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { diffObjects } from "#placement/work/diff.ts";
import { laneOf, type Target, type WorkPass } from "./parts.ts";

export interface Comparison {
  readonly diffs: readonly PatchDetail[];
  /** Which fields are managed is unknown, so that all were compared. */
  readonly isDegraded: boolean;
}

/** The differences between an object in the member and its manifest: of the fields that the manifest has, or of all. */
export async function compare(pass: WorkPass, target: Target, live: KubeObject): Promise<Comparison> {
  const { manifest, of } = target;
  const { maxDifferences } = pass.strategy;
  if (pass.strategy.comparisonOption === "FullComparison")
    return { diffs: diffObjects(live, manifest.object, maxDifferences), isDegraded: false };
  try {
    // What the object would be if the manifest were applied: all that differs is what others changed of its fields.
    const wanted = await pass.requests.write(laneOf(target), pass.signal, (signal) =>
      pass.session.local.apply(of, manifest.object as Applied<KubeObject>, {
        fieldManager: WORK_MANAGER,
        force: true,
        dryRun: true,
        signal,
      }),
    );
    return { diffs: diffObjects(live, wanted, maxDifferences), isDegraded: false };
  } catch (error) {
    if (!hasCode(error, "API_INVALID", "API_BAD_REQUEST", "API_UNEXPECTED")) throw error;
    return { diffs: diffObjects(live, manifest.object, maxDifferences), isDegraded: true };
  }
}
