import type { EndpointSlice } from "#api/discovery/v1/types.ts";
import { readPort } from "#api/fairlead.dev/model/exported-service.ts";
import { exposedPorts } from "#api/fairlead.dev/model/merge.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, splitKey } from "#api/meta/key.ts";
import { MCS_SOURCE_CLUSTER_LABEL } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { createController } from "#kube/controller.ts";
import { watching } from "#kube/source.ts";
import type { Controller } from "#kube/types.ts";
import { isOurs } from "../imports/mcs-import-plan.ts";
import type { Session } from "../session.ts";
import { ignoreVanishing } from "../vanishing.ts";
import type { Choice } from "./choice.ts";
import { planFound, writeSlices } from "./import.ts";
import { findOwnSource, type FoundSlice, namesOf, namesOfLocal } from "./sources.ts";

/**
 * For an agent that begins while the hub is away: this cluster's own endpoints, in the imports that are here, go on
 * following its pods. What the fleet agreed on is read from those imports, and slices of other clusters stay as they are.
 * Ends when the mailbox can be read, before the others begin. Keys are names of slices.
 */
export function createOwnEndpoints(session: Session): Controller {
  const { here, deps } = session;
  const slicesOf = ({ key }: { readonly key: ObjectKey }): ObjectKey[] => namesOf(session, key);
  const serving = new Map<ObjectKey, boolean>();
  return createController(
    {
      name: "member-own-endpoints",
      reconcile: (key, signal) => reconcile(session, serving, key, signal).catch(ignoreVanishing),
      sources: [
        watching(here.slices, (change) => namesOfLocal(session, change)),
        watching(here.services, slicesOf),
        watching(here.mcsExports, slicesOf),
        watching(here.fleetExports, slicesOf),
        watching(here.mcsImports, slicesOf),
      ],
    },
    deps,
  );
}

/** @param serving - By service: whether this cluster served it when it was first looked at. */
async function reconcile(
  session: Session,
  serving: Map<ObjectKey, boolean>,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<void> {
  const [local] = session.here.slices.store.byIndex("exportName", key);
  const found = local === undefined ? undefined : findOwnSource(session, key, local);
  const wanted =
    found === undefined
      ? []
      : planFound(session, found, {
          spec: readSpec(session, found.service),
          isAlive: () => true,
          ...choiceOf(session, serving, found),
        });
  const isFromHere = (it: EndpointSlice): boolean =>
    it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === session.cluster;
  await writeSlices(session, { key, wanted, isOurs: isFromHere }, signal);
}

/**
 * Who served goes on serving, and who did not because others came first, or because it is drained, does not begin: what
 * was asked of the clusters only the hub tells.
 */
function choiceOf(session: Session, serving: Map<ObjectKey, boolean>, { service }: FoundSlice): Choice {
  const isServing = serving.get(service) ?? isServingNow(session, service);
  serving.set(service, isServing);
  return { serves: () => isServing, servesBalanced: () => true };
}

function isServingNow({ here, cluster }: Session, service: ObjectKey): boolean {
  const slices = [...here.slices.store.byIndex("importedService", service)];
  const isOwn = (it: EndpointSlice): boolean => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === cluster;
  return slices.some(isOwn) || slices.every((it) => it.endpoints.length === 0);
}

/** What the hub said of a service, as far as its import tells and this cluster's own endpoints need it. */
function readSpec({ here, cluster }: Session, key: ObjectKey): ImportedService["spec"] | undefined {
  const object = here.mcsImports.store.get(key);
  const { spec, status } = object ?? {};
  const isExporter = status?.clusters?.some((it) => it.cluster === cluster) === true;
  if (object === undefined || spec === undefined || !isOurs(object) || !isExporter) return undefined;
  const { namespace = "", name } = splitKey(key);
  const own = (here.services.store.get(key)?.spec?.ports ?? []).map((it) => readPort(it));
  return {
    ...spec,
    service: { namespace, name },
    clusters: [
      {
        cluster,
        ports: exposedPorts(
          own,
          spec.ports.map((it) => readPort(it)),
        ),
      },
    ],
  };
}
