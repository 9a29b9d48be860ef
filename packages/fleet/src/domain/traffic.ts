import { byText } from "@fairlead/base/text.ts";
import type {
  InternalServiceExportSpec,
  LocalityAffinity,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { isClusterName } from "#api/fairlead.dev/cluster-names.ts";
import { readWeight } from "./weight.ts";

/** The traffic settings of an exporter, from annotations of its ServiceExports. */

export type ExportTraffic = Pick<InternalServiceExportSpec, "weight" | "priority" | "affinity" | "exportTo">;

export interface TrafficRequest {
  /** The values in effect: for an annotation that cannot be parsed, the last valid one. */
  readonly traffic: ExportTraffic;
  /** Annotations that cannot be parsed, why, and the values used instead. */
  readonly problems: readonly string[];
}

type Annotations = Readonly<Record<string, string>> | undefined;

type Reading<T> = { readonly value: T } | { readonly problem: string };
type Readers = {
  readonly [K in keyof ExportTraffic]-?: (text: string) => Reading<NonNullable<ExportTraffic[K]>>;
};

const MAX_PRIORITY = 1000;
/** Several times the members that a fleet can have. */
const MAX_NAMES = 1000;

const READERS: Readers = {
  weight: parseWeight,
  priority: parsePriority,
  affinity: parseAffinity,
  exportTo: parseMembers,
};
const KEYS = Object.keys(READERS) as (keyof ExportTraffic)[];

/** For a new export whose annotation cannot be parsed: its importers were meant to be restricted. */
const CLOSED: ExportTraffic = { exportTo: [] };

/**
 * Reads the annotations of a service's exports. Where both APIs say something, the multi-cluster one counts.
 *
 * @param before - What the hub has; undefined where nothing is exported yet.
 */
export function readTraffic(
  exports: { readonly mcs: Annotations; readonly fleet: Annotations },
  before: ExportTraffic | undefined,
): TrafficRequest {
  const traffic: Record<string, ExportTraffic[keyof ExportTraffic]> = {};
  const problems: string[] = [];
  for (const key of KEYS) {
    const name = TRAFFIC_ANNOTATIONS[key];
    // The fleet API has a separate weight.
    const text = exports.mcs?.[name] ?? (key === "weight" ? undefined : exports.fleet?.[name]);
    if (text === undefined) continue;
    const reading = READERS[key](text);
    const value = "value" in reading ? reading.value : (before ?? CLOSED)[key];
    if (value !== undefined) traffic[key] = value;
    if ("problem" in reading) problems.push(`${name}: ${reading.problem}; using ${describeKept(key, value)}`);
  }
  return { traffic, problems };
}

function describeKept(key: keyof ExportTraffic, kept: ExportTraffic[keyof ExportTraffic]): string {
  if (Array.isArray(kept)) return kept.length === 0 ? "no other cluster" : kept.join(",");
  if (kept === undefined) return key === "exportTo" ? "every member" : "the default";
  return String(kept);
}

function parseWeight(text: string): Reading<number> {
  const read = readWeight(text);
  return read.kind === "valid" ? { value: read.weight } : { problem: read.message };
}

function parsePriority(text: string): Reading<number> {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value <= MAX_PRIORITY) return { value };
  return { problem: `must be a whole number from 0 to ${MAX_PRIORITY}, got ${quote(text)}` };
}

const AFFINITIES: readonly LocalityAffinity[] = ["none", "local", "remote"];

function parseAffinity(text: string): Reading<LocalityAffinity> {
  const value = AFFINITIES.find((it) => it === text);
  if (value !== undefined) return { value };
  return { problem: `must be one of ${AFFINITIES.join(", ")}, got ${quote(text)}` };
}

function parseMembers(text: string): Reading<string[]> {
  const names = text.split(",").map((it) => it.trim());
  if (!names.every((it) => isClusterName(it)))
    return { problem: `must be a comma-separated list of members, got ${quote(text)}` };
  if (names.length > MAX_NAMES)
    return { problem: `has ${names.length} members; at most ${MAX_NAMES} are allowed` };
  return { value: [...new Set(names)].toSorted(byText) };
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 40));
}
