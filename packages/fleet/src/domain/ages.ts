import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { ExportedService } from "./exported-service.ts";

/**
 * Since when each cluster exports a service, as far as the hub can verify it. By this age, and not by the members' claims, the
 * oldest export wins (KEP-1645). Only the hub writes it, as an annotation of its ServiceImport, which exists while any cluster
 * exports the service: a withdrawn export that is repeated, and a cluster that leaves and joins again, keep their place.
 *
 * The date of a member is accepted if the export reached the hub within a minute of it; otherwise the export counts as younger
 * than all that the hub knew when it arrived. Later dates are accepted: a recreated ServiceExport is younger.
 */

/** By cluster. RFC 3339, whole seconds. */
export type Ages = ReadonlyMap<string, string>;

/**
 * The most time of an export on its way to the hub, including the difference of the two clocks: the replica that takes over
 * does so within 20 s. Unit: milliseconds.
 */
const ON_THE_WAY_MS = 60_000;
/** Several times the members of a fleet; those that do not export now are forgotten first. */
const MAX_REMEMBERED = 1000;

export function parseAges(annotation: string | undefined): Ages | undefined {
  if (annotation === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(annotation);
    if (!isObject(value)) return new Map();
    const known = Object.entries(value).filter(
      (it): it is [string, string] => typeof it[1] === "string" && !Number.isNaN(Date.parse(it[1])),
    );
    return new Map(known);
  } catch {
    return new Map();
  }
}

export function renderAges(ages: Ages): string {
  return JSON.stringify(Object.fromEntries([...ages].toSorted(([a], [b]) => byText(a, b))));
}

export interface NewExport {
  readonly model: ExportedService;
  /** `metadata.creationTimestamp` of its object, by the hub's clock. */
  readonly seenAt: string;
}

/**
 * The ages of all exporters of a service.
 *
 * @param known - Undefined where the hub has a ServiceImport that says none: it is of a hub that went by what members say,
 *   and they keep the places that they had.
 */
export function planAges(known: Ages | undefined, exports: readonly NewExport[]): Ages {
  const ages = new Map(known);
  const fresh = exports
    .filter((it) => !ages.has(it.model.cluster))
    .toSorted((a, b) => byText(a.seenAt, b.seenAt) || byText(a.model.cluster, b.model.cluster));
  for (const { model, seenAt } of fresh) {
    const seenMs = millis(seenAt);
    const saidMs = millis(model.createdAt);
    const isBelieved =
      known === undefined ? saidMs <= seenMs : saidMs <= seenMs && saidMs >= seenMs - ON_THE_WAY_MS;
    const last = Math.max(seenMs, ...[...ages.values()].map((it) => millis(it)));
    ages.set(model.cluster, seconds(isBelieved ? saidMs : last + 1000));
  }
  if (ages.size <= MAX_REMEMBERED) return ages;
  const present = new Set(exports.map((it) => it.model.cluster));
  const kept = [...ages].toSorted(
    ([a, at], [b, bt]) => Number(present.has(b)) - Number(present.has(a)) || byText(bt, at),
  );
  return new Map(kept.slice(0, MAX_REMEMBERED));
}

/** The export as old as it may count. */
export function withAge(model: ExportedService, ages: Ages): ExportedService {
  const known = ages.get(model.cluster);
  if (known === undefined) return model;
  const ms = Math.max(millis(known), millis(model.createdAt));
  return { ...model, createdAt: seconds(ms) };
}

/** A time that cannot be parsed becomes 1970, which is never accepted. */
function millis(text: string): number {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? 0 : ms;
}

function seconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
