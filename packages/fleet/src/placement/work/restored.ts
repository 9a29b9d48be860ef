import type { AppliedWork, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { APPLIED_GENERATION_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";

/** "uid generation": increases as long as the hub keeps its data. */
export function versionOf({ metadata: { uid = "", generation = 0 } }: Work): string {
  return `${uid} ${generation}`;
}

/**
 * Why a Work is not applied: it is older than what was applied of it, so that the hub was restored from a backup. Undefined if it is
 * not. What was placed since then would be removed or put back; the first change of the Work beyond that generation is applied again.
 */
export function restoredProblem(work: Work, owner: AppliedWork | undefined): string | undefined {
  const applied = owner?.metadata.annotations?.[APPLIED_GENERATION_ANNOTATION] ?? "";
  const [uid, generation = ""] = applied.split(" ");
  const { uid: present, generation: now = 0 } = work.metadata;
  if (uid !== present || !(Number(generation) > now)) return undefined;
  return (
    `generation ${generation} of this Work was applied, and the hub has generation ${now}: it was restored from a backup. ` +
    `Nothing is changed in the cluster until the Work is newer; to apply it as it is, remove the annotation ` +
    `${APPLIED_GENERATION_ANNOTATION} of AppliedWork ${work.metadata.name} in the member`
  );
}
