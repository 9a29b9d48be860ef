import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import type { LocalityAffinity } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  affinityOf,
  chooseGlobal,
  type GlobalRules,
  isGlobalSettled,
  type ServesGlobal,
} from "#domain/global-choice.ts";
import type { OfferedSlice } from "#domain/eligible.ts";
import { type GlobalService, globalServiceOf } from "../global-services.ts";
import { importedService } from "../imports/mcs-import.ts";
import type { Session } from "../session.ts";
import { drainsOf } from "./drained.ts";
import { exportedFacts } from "./export.ts";
import { sourcesOf } from "./sources.ts";

/** What slices of other clusters next to those of a global Service go by. */
export interface GlobalUse extends GlobalService {
  readonly serves: ServesGlobal;
  /** That of the Service, but while this cluster is drained. */
  readonly affinity: LocalityAffinity;
}

/** Undefined if the Service here is not global. */
export function globalUseOf(
  session: Session,
  key: ObjectKey,
  { spec, isAlive }: { readonly spec: ImportedService["spec"]; readonly isAlive: IsAliveIn },
): GlobalUse | undefined {
  const found = globalServiceOf(session, key);
  if (found === undefined) return undefined;
  const slicesNow = (): OfferedSlice[] => [
    ...ownSlices(session, key),
    ...remoteSlices(session, key, isAlive),
  ];
  const rules = rulesFor(session, found, spec);
  return { ...found, serves: chooseGlobal(rules, slicesNow), affinity: affinityOf(rules) };
}

type IsAliveIn = (cluster: string, addresses: readonly string[]) => boolean;

function rulesFor(session: Session, { settings }: GlobalService, spec: ImportedService["spec"]): GlobalRules {
  return {
    own: session.cluster,
    affinity: settings.affinity,
    clusters: spec.clusters,
    drained: drainsOf(session),
  };
}

/** Whether or not they are exported. */
function ownSlices({ here, cluster }: Session, key: ObjectKey): OfferedSlice[] {
  return [...here.slices.store.byIndex("service", key)].flatMap((slice) => {
    const facts = exportedFacts(slice);
    return facts === undefined ? [] : [{ cluster, facts, isAlive: () => true }];
  });
}

function remoteSlices(session: Session, key: ObjectKey, isAlive: IsAliveIn): OfferedSlice[] {
  return sourcesOf(session, key)
    .filter(({ source }) => !source.isLocal)
    .map(({ source: { cluster, facts } }) => ({
      cluster,
      facts,
      isAlive: (addresses) => isAlive(cluster, addresses),
    }));
}

/** Whether it matters for a global Service who is ready. */
export function isGlobalContested(session: Session, key: ObjectKey): boolean {
  const spec = importedService(session, key)?.spec;
  const found = spec === undefined ? undefined : globalServiceOf(session, key);
  return spec !== undefined && found !== undefined && !isGlobalSettled(rulesFor(session, found, spec));
}
