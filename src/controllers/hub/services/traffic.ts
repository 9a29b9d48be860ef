import { isFor, strangersOf } from "#api/fairlead.dev/model/audience.ts";
import type { ExportedService } from "#api/fairlead.dev/model/exported-service.ts";
import { TRAFFIC } from "#api/fairlead.dev/names.ts";
import type { Condition } from "#api/meta/types.ts";
import type { FleetServiceImportStatus } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** What exports are told of how they asked to be shared out. Pure. */

export interface TrafficFacts {
  /** Undefined where exports agree. */
  readonly affinityConflict: string | undefined;
  readonly members: ReadonlySet<string>;
}

/** Nothing where nothing is wrong: the member says what holds. */
export function trafficVerdict(
  model: ExportedService,
  { affinityConflict, members }: TrafficFacts,
): Omit<Condition, "lastTransitionTime">[] {
  const strangers = strangersOf(model, members);
  const wrong = [
    ...(strangers.length === 0
      ? []
      : [{ reason: "UnknownMembers", message: `no members of the fleet: ${strangers.join(", ")}` }]),
    ...(model.affinity === undefined || affinityConflict === undefined
      ? []
      : [{ reason: "AffinityConflict", message: affinityConflict }]),
  ];
  if (wrong.length === 0) return [];
  return [
    {
      type: TRAFFIC,
      status: "False",
      reason: wrong.map((it) => it.reason).join(","),
      message: wrong.map((it) => it.message).join("; "),
    },
  ];
}

/** The import of one member: without the clusters that do not export to it. */
export function statusFor(
  status: FleetServiceImportStatus,
  models: readonly ExportedService[],
  member: string,
): FleetServiceImportStatus {
  const seen = new Set(models.filter((it) => isFor(it, member)).map((it) => it.cluster));
  const clusters = (status.clusters ?? []).filter((it) => seen.has(it.cluster));
  return clusters.length === 0 ? {} : { ...status, clusters };
}
