import type { Endpoint } from "@fairlead/kube/api/discovery/v1/types.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { exportsFleetAddresses, fleetAddressOf, isParallel, ownAddresses } from "./fleet-addresses.ts";
import { sourceOfSliceExport } from "./informers.ts";
import type { Session } from "./session.ts";

/**
 * How far this cluster is with fleet addresses, for the hub, which has members use them when all are ready. Undefined: not
 * ready, or in a flat network.
 */
export function progressOf(session: Session): NamespaceReport["spec"]["fleetAddresses"] {
  if (!isParallel(session)) return undefined;
  if (exportsFleetAddresses(session) && areAllInUse(session)) return "InUse";
  const usesSome = !exportsFleetAddresses(session) && isAnyInUse(session);
  if (usesSome) return "InUse";
  return hasKnownGateway(session) && [...ownEndpoints(session)].every((it) => isAttached(session, it))
    ? "Ready"
    : undefined;
}

/** Whether other clusters know a gateway of this one. Whether there are paths between them, the hub sees by the reports of both. */
function hasKnownGateway({ mesh, cluster }: Session): boolean {
  return [...(mesh?.gateways.store.list() ?? [])].some(
    ({ spec, status }) =>
      spec.cluster === cluster &&
      (spec.keys?.length ?? 0) > 0 &&
      isConditionTrue(status?.conditions, "Accepted"),
  );
}

/** The endpoints here of the slices that are exported. */
function* ownEndpoints({ here, mailbox }: Session): Generator<Endpoint> {
  for (const it of mailbox.sliceExports.store.list())
    yield* here.slices.store.get(sourceOfSliceExport(it))?.endpoints ?? [];
}

/** Endpoints that are not ready may be of pods that are not running yet. */
function isAttached(session: Session, { conditions, targetRef }: Endpoint): boolean {
  const isServing = conditions?.ready !== false;
  return (
    !isServing ||
    (targetRef?.uid !== undefined && fleetAddressOf(session, targetRef.uid, "IPv4") !== undefined)
  );
}

function areAllInUse(session: Session): boolean {
  const isOwn = ownAddresses(session);
  return [...session.mailbox.sliceExports.store.list()].every(({ spec }) =>
    spec.endpoints.every((it) => it.addresses.every(isOwn)),
  );
}

function isAnyInUse(session: Session): boolean {
  const isOwn = ownAddresses(session);
  return [...session.mailbox.sliceExports.store.list()].some(({ spec }) =>
    spec.endpoints.some((it) => it.addresses.some(isOwn)),
  );
}
