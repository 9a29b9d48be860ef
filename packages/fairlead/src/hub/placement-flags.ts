import { parseDuration } from "@fairlead/base/duration.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { SelectingOptions } from "@fairlead/fleet/hub/placement/selecting.ts";
import { placementRules } from "@fairlead/fleet/placement/selection/rules.ts";

/** Flags of what placements select. */

interface PlacementFlags {
  readonly snapshotInterval: string;
  readonly snapshotCollection: string;
  readonly skippedApis?: string | undefined;
  readonly allowedApis?: string | undefined;
  readonly skippedNamespaces?: string | undefined;
  readonly runsWorkloads?: true | undefined;
}

export const MIN_INTERVAL_FLAG = [
  "--snapshot-interval <duration>",
  "shortest time between two resource snapshots of a placement, 0 to 5m",
  "5s",
] as const;
export const COLLECTION_FLAG = [
  "--snapshot-collection <duration>",
  "how long changes of resources are collected before they become a snapshot, 0 to 1m",
  "1s",
] as const;
export const SKIPPED_APIS_FLAG = [
  "--skipped-apis <list>",
  "kinds that are never placed: GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND, separated by semicolons",
] as const;
export const ALLOWED_APIS_FLAG = [
  "--allowed-apis <list>",
  "the only kinds that are placed besides Namespaces, written as for --skipped-apis",
] as const;
export const SKIPPED_NAMESPACES_FLAG = [
  "--skipped-namespaces <names>",
  "namespaces that are never placed, separated by commas",
] as const;
export const WORKLOAD_FLAG = [
  "--runs-workloads",
  "the hub runs workloads of its own: PersistentVolumeClaims are not placed",
] as const;
export const CONFIG_MAP_ENVELOPES_FLAG = [
  "--configmap-envelopes",
  'also open ConfigMaps with annotation kubernetes-fleet.io/envelope-configmap: "true" as envelopes of objects of their namespace',
] as const;

/** @throws {FleetError} `OPTION_INVALID` */
export function selectingOf(flags: PlacementFlags): SelectingOptions {
  const { skippedApis, allowedApis } = flags;
  if (skippedApis !== undefined && allowedApis !== undefined)
    throw new FleetError("OPTION_INVALID", "--skipped-apis and --allowed-apis exclude each other");
  const options: SelectingOptions = {
    minIntervalMs: durationOf(MIN_INTERVAL_FLAG[0], flags.snapshotInterval, 300_000),
    collectMs: durationOf(COLLECTION_FLAG[0], flags.snapshotCollection, 60_000),
    skippedNamespaces: namesOf(flags.skippedNamespaces),
    runsWorkloads: flags.runsWorkloads === true,
    ...(skippedApis === undefined ? {} : { skippedApis }),
    ...(allowedApis === undefined ? {} : { allowedApis }),
  };
  // Says what cannot be read, before anything is started.
  placementRules(options);
  return options;
}

function durationOf(flag: string, text: string, maxMs: number): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms <= maxMs) return ms;
  const [name] = flag.split(" ");
  throw new FleetError(
    "OPTION_INVALID",
    `${name} must be a duration of 0 to ${maxMs / 60_000}m, such as 10s, got ${JSON.stringify(text)}`,
  );
}

/** As in KubeFleet, semicolons separate names as well. */
function namesOf(text = ""): string[] {
  return text
    .split(/[,;]/)
    .map((it) => it.trim())
    .filter((it) => it !== "");
}
