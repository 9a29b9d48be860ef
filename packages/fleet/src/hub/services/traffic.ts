import { strangersOf, type Members } from "#domain/audience.ts";
import { byAge, type ExportedService, isFor } from "#domain/exported-service.ts";
import { commonFamilies } from "#domain/merge.ts";
import { planStrictImport } from "#domain/strict.ts";
import { TRAFFIC } from "#api/fairlead.dev/names.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { FleetServiceImportStatus } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** Conditions on exports that report how their traffic settings apply. Pure. */

export interface TrafficFacts {
  /** Undefined where exports agree. */
  readonly affinityConflict: string | undefined;
  readonly members: Members;
}

/** Empty if nothing is wrong: the member reports the settings that apply. */
export function trafficConditions(
  model: ExportedService,
  { affinityConflict, members }: TrafficFacts,
): Omit<Condition, "lastTransitionTime">[] {
  const strangers = strangersOf(model, members);
  const wrong = [
    ...(strangers.length === 0
      ? []
      : [{ reason: "UnknownMembers", message: `not members of the fleet: ${strangers.join(", ")}` }]),
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

/** The import of one member: as if there were no clusters but those that export to it. */
export function statusFor(
  status: FleetServiceImportStatus,
  models: readonly ExportedService[],
  { cluster, knowsFamilies }: { readonly cluster: string; readonly knowsFamilies: boolean },
): FleetServiceImportStatus {
  const own = narrowedTo(status, models, cluster);
  if (!knowsFamilies) return own;
  const accepted = new Set(own.clusters?.map((it) => it.cluster));
  const ordered = models.filter((it) => accepted.has(it.cluster)).toSorted(byAge);
  // Exports of legacy agents do not name IP families, and are IPv4.
  const said = commonFamilies(
    ordered.map((it) => (it.ipFamilies.length > 0 ? it : { ...it, ipFamilies: ["IPv4"] })),
  );
  return said.length === 0 ? own : { ...own, ipFamilies: [...said] };
}

function narrowedTo(
  status: FleetServiceImportStatus,
  models: readonly ExportedService[],
  member: string,
): FleetServiceImportStatus {
  const accepted = new Set(status.clusters?.map((it) => it.cluster));
  const all = models.filter((it) => accepted.has(it.cluster));
  const seen = all.filter((it) => isFor(it, member));
  if (seen.length === all.length) return status;
  // How ports are put together is for all to decide, also for those that are not seen.
  const unitesPorts = status.clusters?.some((it) => it.ports !== undefined) === true;
  return (
    planStrictImport(
      seen.map((it) => ({ ...it, unitesPorts })),
      undefined,
    ).status ?? {}
  );
}
