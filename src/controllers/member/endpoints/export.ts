import type { EndpointSlice } from "#api/discovery/v1/types.ts";
import { sliceExportName } from "#api/fairlead.dev/model/names.ts";
import { type ObjectKey, keyOf } from "#api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  type EndpointSliceExport,
  type EndpointSliceExportSpec,
  type ExportedEndpoint,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "#base/json.ts";
import { applyIfChanged } from "#kube/apply.ts";
import { findCondition, timestamp } from "#kube/conditions.ts";
import { createController } from "#kube/controller.ts";
import { isDeleting } from "#kube/finalizers.ts";
import { watching } from "#kube/source.ts";
import type { Change, Controller } from "#kube/types.ts";
import { planFor } from "../exports/reconcile.ts";
import {
  isImported,
  MEMBER_MANAGER,
  serviceOfExport,
  serviceOfLocalSlice,
  sourceOfSliceExport,
} from "../informers.ts";
import { both, isHubModern, isMembershipChanged, membershipOf, type Session } from "../session.ts";

type SliceFacts = Pick<EndpointSliceExportSpec, "addressType" | "endpoints" | "ports">;

/** Slices of exported Services to EndpointSliceExports. Keys are local slices. */
export function createEndpointExport(session: Session): Controller {
  const { here, mailbox, deps } = session;
  const slicesOf = ({ key }: { readonly key: ObjectKey }): ObjectKey[] =>
    [...here.slices.store.byIndex("service", key)].map(keyOf);
  return createController(
    {
      name: "endpointslice",
      reconcile: (key, signal) => reconcile(session, key, signal),
      concurrency: 16,
      sources: [
        watching(here.slices, (change) => (isOwn(change) ? [change.key] : [])),
        watching(here.fleetExports, slicesOf),
        watching(here.mcsExports, slicesOf),
        watching(here.services, slicesOf),
        watching(
          mailbox.sliceExports,
          both((it) => [sourceOfSliceExport(it)]),
        ),
        watching(mailbox.orders, (change) => (isMembershipChanged(change) ? sliceKeys(session) : [])),
        // The last valid weight, and what an original hub decided.
        watching(mailbox.exports, (change) =>
          isHubModern(session) ? [] : both(serviceOfExport)(change).flatMap((key) => slicesOf({ key })),
        ),
      ],
    },
    deps,
  );
}

function isOwn({ before, after }: Change<EndpointSlice>): boolean {
  return [before, after].some((it) => it !== undefined && !isImported(it));
}

/** Every slice that is or was exported. */
export function sliceKeys({ here, mailbox }: Session): ObjectKey[] {
  return [
    ...[...here.slices.store.list()].filter((it) => !isImported(it)).map(keyOf),
    ...[...mailbox.sliceExports.store.list()].map(sourceOfSliceExport),
  ];
}

/** What of a slice the fleet is told; undefined for slices that cannot be exported. */
export function exportedFacts(slice: EndpointSlice): SliceFacts | undefined {
  if (slice.addressType === "FQDN" || isDeleting(slice)) return undefined;
  return {
    addressType: slice.addressType,
    endpoints: slice.endpoints.map(readEndpoint),
    ...(slice.ports === undefined
      ? {}
      : {
          ports: slice.ports.map(({ name, protocol, port, appProtocol }) => ({
            ...(name === undefined ? {} : { name }),
            ...(protocol === undefined ? {} : { protocol }),
            ...(port === undefined ? {} : { port }),
            ...(appProtocol === undefined ? {} : { appProtocol }),
          })),
        }),
  };
}

function readEndpoint(endpoint: EndpointSlice["endpoints"][number]): ExportedEndpoint {
  const { addresses, conditions = {}, hostname, nodeName, zone } = endpoint;
  const { ready, serving, terminating } = conditions;
  const known = {
    ...(ready === undefined ? {} : { ready }),
    ...(serving === undefined ? {} : { serving }),
    ...(terminating === undefined ? {} : { terminating }),
  };
  return {
    addresses,
    ...(Object.keys(known).length === 0 ? {} : { conditions: known }),
    ...(hostname === undefined ? {} : { hostname }),
    ...(nodeName === undefined ? {} : { nodeName }),
    ...(zone === undefined ? {} : { zone }),
  };
}

interface Wanted {
  readonly slice: EndpointSlice;
  readonly service: ObjectKey;
  readonly facts: SliceFacts;
  /** Of the EndpointSliceExport. */
  readonly name: string;
}

/** What has to be on the hub for a slice; undefined when nothing has. */
function findWanted(session: Session, key: ObjectKey): Wanted | undefined {
  if (membershipOf(session) !== "join") return undefined;
  const slice = session.here.slices.store.get(key);
  const [service] = slice === undefined ? [] : serviceOfLocalSlice(slice);
  if (slice === undefined || service === undefined) return undefined;
  const facts = exportedFacts(slice);
  if (facts === undefined || planFor(session, service).spec === undefined) return undefined;
  const sent = isHubModern(session) ? facts : factsForOriginalHub(session, service, facts);
  if (sent === undefined) return undefined;
  const { namespace = "", name } = slice.metadata;
  return { slice, service, facts: sent, name: sliceExportName(session.cluster, namespace, name) };
}

/**
 * An original hub hands on whatever it is sent: members keep back the endpoints of an export that it did not accept, and
 * importers take every endpoint for ready and know IPv4 only.
 */
function factsForOriginalHub(
  { mailbox }: Session,
  service: ObjectKey,
  { addressType, endpoints, ports }: SliceFacts,
): SliceFacts | undefined {
  const isAccepted = [...mailbox.exports.store.byIndex("service", service)].some(
    (it) => findCondition(it.status?.conditions, "Conflict")?.status === "False",
  );
  if (!isAccepted || addressType !== "IPv4") return undefined;
  const ready = endpoints.filter((it) => it.conditions?.ready !== false);
  return {
    addressType,
    endpoints: ready.map(({ addresses }) => ({ addresses })),
    ...(ports === undefined ? {} : { ports }),
  };
}

async function reconcile(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const { hub, mailbox, cluster } = session;
  if (membershipOf(session) === "none") return;
  const wanted = findWanted(session, key);
  let current: EndpointSliceExport | undefined;
  for (const it of mailbox.sliceExports.store.byIndex("source", key)) {
    if (it.metadata.name === wanted?.name) current = it;
    else if (!isDeleting(it)) await hub.delete(ENDPOINT_SLICE_EXPORTS, keyOf(it), { signal });
  }
  if (wanted === undefined) return;
  await applyIfChanged(hub, ENDPOINT_SLICE_EXPORTS, {
    current,
    desired: {
      metadata: { namespace: mailboxOf(cluster), name: wanted.name },
      spec: describe(session, { ...wanted, current }),
    },
    fieldManager: MEMBER_MANAGER,
    signal,
  });
}

function describe(
  { cluster, deps }: Session,
  it: Wanted & { readonly current: EndpointSliceExport | undefined },
): EndpointSliceExportSpec {
  const { namespace = "", name, uid = "", resourceVersion = "", generation = 0 } = it.slice.metadata;
  const before = it.current?.spec;
  const serviceName = it.service.slice(namespace.length + 1);
  const owner = { namespace, name: serviceName, namespacedName: it.service };
  const { endpointSliceReference, ownerServiceReference, ...facts } = before ?? {};
  // Annotations of a slice change without its endpoints: alone they are no reason to upload.
  const isUnchanged =
    sameJson(facts, it.facts) &&
    sameJson(ownerServiceReference, owner) &&
    endpointSliceReference?.uid === uid;
  return {
    ...it.facts,
    ownerServiceReference: owner,
    endpointSliceReference:
      isUnchanged && endpointSliceReference !== undefined
        ? endpointSliceReference
        : {
            clusterId: cluster,
            apiVersion: "discovery.k8s.io/v1",
            kind: "EndpointSlice",
            namespace,
            name,
            namespacedName: `${namespace}/${name}`,
            uid,
            resourceVersion,
            generation,
            exportedSince: timestamp(deps.clock.now()),
          },
  };
}
