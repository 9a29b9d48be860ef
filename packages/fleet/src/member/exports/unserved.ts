import { ENDPOINTS, EXPORTS_SERVED } from "#api/fairlead.dev/names.ts";
import { WEIGHT_ANNOTATION } from "#api/networking.fleet.azure.com/names.ts";
import { readWeight } from "#domain/weight.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { falseWith, lineOf, type ReportedExport } from "./invalid.ts";

/** Reports exports on the hub that get no requests, with causes that the hub cannot see. Pure. */

/** Pods that are replaced are not ready for a moment. Unit: milliseconds. */
const SETTLED_MS = 3000;

export interface ExportsServed {
  /** Undefined where requests can be sent to all exports. */
  readonly condition: NewCondition | undefined;
  /** When more may have to be reported. Unit: milliseconds. */
  readonly settlesInMs: number | undefined;
}

export function planExportsServed(
  { fleet, mcs }: { readonly fleet: Iterable<ReportedExport>; readonly mcs: Iterable<ReportedExport> },
  nowMs: number,
): ExportsServed {
  const lines = new Set<string>();
  const pending: number[] = [];
  const both = [...mcs];
  const exported = new Set(both.filter((it) => isTrue(it, "Valid")).map(keyOf));
  for (const it of fleet) {
    if (isWithdrawn(it)) {
      if (!exported.has(keyOf(it))) lines.add(lineOf(it, WITHDRAWN));
    } else both.push(it);
  }
  for (const it of both) {
    const why = it.status?.conditions?.find(({ type, status }) => type === ENDPOINTS && status === "False");
    if (why === undefined) continue;
    const ageMs = nowMs - Date.parse(why.lastTransitionTime);
    // A time in the future was written before the clock was set back.
    if (ageMs >= 0 && ageMs < SETTLED_MS) pending.push(SETTLED_MS - ageMs);
    else lines.add(lineOf(it, why.message));
  }
  return {
    condition: falseWith(EXPORTS_SERVED, "NoEndpoints", lines),
    settlesInMs: pending.length === 0 ? undefined : Math.min(...pending),
  };
}

const WITHDRAWN = `weight 0: nothing is exported; set ${WEIGHT_ANNOTATION} of the ServiceExport to 1 or more`;

/** Exports of the fleet API with weight 0 are withdrawn, as by other agents. */
function isWithdrawn(it: ReportedExport): boolean {
  const weight = readWeight(it.metadata.annotations?.[WEIGHT_ANNOTATION]);
  return weight.kind === "valid" && weight.weight === 0 && isTrue(it, "Valid");
}

function isTrue({ status }: ReportedExport, type: string): boolean {
  return status?.conditions?.some((it) => it.type === type && it.status === "True") === true;
}

/** Text that differs where a change of an export may change what is reported of it. */
export function unservedKey(it: ReportedExport | undefined): string {
  if (it === undefined) return "";
  const why = it.status?.conditions?.find(({ type, status }) => type === ENDPOINTS && status === "False");
  return `${isWithdrawn(it)} ${isTrue(it, "Valid")} ${why?.message ?? ""}`;
}
