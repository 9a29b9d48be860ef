import { EXPORTS_SERVED, EXPORTS_VALID } from "#api/fairlead.dev/names.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Change, Source } from "@fairlead/kube/types.ts";
import { invalidityOf, planExportsValid, type ReportedExport } from "../exports/invalid.ts";
import { type ExportsServed, planExportsServed, unservedKey } from "../exports/unserved.ts";
import { runs } from "../roles.ts";
import { isLegacyHub, type Session } from "../session.ts";

/** Reports to the hub what is wrong with the exports of this cluster. */

/** A condition that is undefined is removed: there is nothing to say. */
export type Fact = readonly [type: string, condition: NewCondition | undefined];

export function exportFacts(session: Session, isLeaving: boolean): readonly Fact[] {
  const { here } = session;
  const isReporting = !isLeaving && canReport(session);
  const all = [...here.fleetExports.store.list(), ...here.mcsExports.store.list()];
  return [
    [EXPORTS_VALID, isReporting ? planExportsValid(all) : undefined],
    [EXPORTS_SERVED, isReporting ? servedOf(session).condition : undefined],
  ];
}

/** When a Service that has just lost its endpoints has to be reported; Infinity if none has. Unit: milliseconds. */
export function settlesInMs(session: Session): number {
  return canReport(session) ? (servedOf(session).settlesInMs ?? Infinity) : Infinity;
}

/** Exports that became valid or served, or did not stay so. */
export function watchingReported({ here }: Session, key: ObjectKey): Source[] {
  const whenChanged = ({ before, after }: Change<ReportedExport>): ObjectKey[] =>
    invalidityOf(before) === invalidityOf(after) && unservedKey(before) === unservedKey(after) ? [] : [key];
  return [watching(here.fleetExports, whenChanged), watching(here.mcsExports, whenChanged)];
}

function servedOf({ here, deps }: Session): ExportsServed {
  const exports = { fleet: here.fleetExports.store.list(), mcs: here.mcsExports.store.list() };
  return planExportsServed(exports, deps.clock.now());
}

/** Returns false for a legacy hub, which does not know these conditions. */
function canReport(session: Session): boolean {
  return runs(session.part, "member-net") && !isLegacyHub(session);
}
