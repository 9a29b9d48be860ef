import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { sliceExportName } from "#api/fairlead.dev/cluster-names.ts";
import { sliceWeight } from "#domain/global-service.ts";
import { endpointsForOthers } from "#domain/legacy.ts";
import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { type ObjectKey, keyOf, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  type EndpointSliceExport,
  type EndpointSliceExportSpec,
  type ExportedEndpoint,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import { changedPods, exportsFleetAddresses, fleetAddressOf } from "../fleet-addresses.ts";
import { exportStateOf } from "../exports/reconcile.ts";
import { watchingGlobalNamespaces } from "../global-services.ts";
import { isImported, serviceOfExport, serviceOfLocalSlice, sourceOfSliceExport } from "../informers.ts";
import {
  isMembershipChanged,
  isLegacyHub,
  isPresenceChanged,
  membershipOf,
  type Session,
} from "../session.ts";

type SliceFacts = Pick<EndpointSliceExportSpec, "addressType" | "endpoints" | "ports" | "weight">;

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
        // These make every slice due at the start that is or was exported.
        watching(here.slices, (change) => (isOwn(change) ? [change.key] : [])),
        watching(
          mailbox.sliceExports,
          both((it) => [sourceOfSliceExport(it)]),
        ),
        watchingChanges(here.fleetExports, slicesOf),
        watchingChanges(here.mcsExports, slicesOf),
        watchingChanges(here.services, slicesOf),
        ...watchingGlobalNamespaces(session, (key) => slicesOf({ key })),
        watchingChanges(mailbox.internalMembers, (change) =>
          isMembershipChanged(change) ? sliceKeys(session) : [],
        ),
        ...(session.mesh === undefined
          ? []
          : [
              watchingChanges(session.mesh.blocks, (change) =>
                isOwnBlock(session, change) ? sliceKeys(session) : slicesOfPods(session, changedPods(change)),
              ),
            ]),
        // The plan reads the last valid weight there, and on legacy hubs the condition that allows sending endpoints.
        watchingChanges(mailbox.exports, (change) =>
          isLegacyHub(session) || isPresenceChanged(change)
            ? both(serviceOfExport)(change).flatMap((key) => slicesOf({ key }))
            : [],
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

/** Whether the endpoints may have other addresses now. */
function isOwnBlock({ cluster }: Session, { before, after }: Change<AddressBlock>): boolean {
  const spec = (after ?? before)?.spec;
  return spec?.node === undefined && spec?.cluster === cluster;
}

/** The slices on the hub that have an endpoint in one of the pods here. */
function slicesOfPods({ here, mailbox }: Session, pods: ReadonlySet<string>): ObjectKey[] {
  if (pods.size === 0) return [];
  return [...mailbox.sliceExports.store.list()].map(sourceOfSliceExport).filter((key) => {
    const endpoints = here.slices.store.get(key)?.endpoints ?? [];
    return endpoints.some(({ targetRef }) => pods.has(targetRef?.uid ?? ""));
  });
}

/** With the fleet addresses of the pods. Endpoints without one are left out: other clusters could not reach them. */
function withFleetAddresses(session: Session, slice: EndpointSlice, facts: SliceFacts): SliceFacts {
  const { addressType } = slice;
  if (addressType === "FQDN") return facts;
  return {
    ...facts,
    endpoints: facts.endpoints.flatMap((endpoint, at) => {
      const pod = slice.endpoints[at]?.targetRef?.uid;
      const address = pod === undefined ? undefined : fleetAddressOf(session, pod, addressType);
      return address === undefined ? [] : [{ ...endpoint, addresses: [address] }];
    }),
  };
}

/** Returns the exported part of a slice; undefined for slices that cannot be exported. */
export function exportedFacts(slice: EndpointSlice): SliceFacts | undefined {
  if (slice.addressType === "FQDN" || isDeleting(slice)) return undefined;
  return {
    addressType: slice.addressType,
    endpoints: slice.endpoints.map(readEndpoint),
    ...(slice.ports === undefined
      ? {}
      : {
          ports: slice.ports.map(({ name, protocol, port, appProtocol }) => ({
            ...defined({ name, protocol, port, appProtocol }),
          })),
        }),
    ...defined({ weight: sliceWeight(slice.metadata.annotations) }),
  };
}

function readEndpoint(endpoint: EndpointSlice["endpoints"][number]): ExportedEndpoint {
  const { addresses, conditions = {}, hostname, nodeName, zone } = endpoint;
  const { ready, serving, terminating } = conditions;
  const known = {
    ...defined({ ready, serving, terminating }),
  };
  return {
    addresses,
    ...(Object.keys(known).length === 0 ? {} : { conditions: known }),
    ...defined({ hostname, nodeName, zone }),
  };
}

interface Wanted {
  readonly slice: EndpointSlice;
  readonly service: ObjectKey;
  readonly facts: SliceFacts;
}

/** What has to be on the hub for a slice; undefined when nothing has. */
function findWanted(session: Session, key: ObjectKey): Wanted | undefined {
  if (membershipOf(session) !== "join") return undefined;
  const slice = session.here.slices.store.get(key);
  const [service] = slice === undefined ? [] : serviceOfLocalSlice(slice);
  if (slice === undefined || service === undefined) return undefined;
  const { hasEndpoints } = exportStateOf(session, service);
  const all = hasEndpoints ? exportedFacts(slice) : undefined;
  const reachable =
    all !== undefined && exportsFleetAddresses(session) ? withFleetAddresses(session, slice, all) : all;
  const facts = reachable !== undefined && isLegacyHub(session) ? endpointsForOthers(reachable) : reachable;
  return facts === undefined ? undefined : { slice, service, facts };
}

async function reconcile(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const { hub, mailbox, cluster } = session;
  if (membershipOf(session) === "none") return;
  const wanted = findWanted(session, key);
  const present = [...mailbox.sliceExports.store.byIndex("source", key)].filter((it) => !isDeleting(it));
  const { namespace, name: local } = splitKey(key);
  const name = sliceExportName(cluster, namespace ?? "", local);
  // A slice that a legacy agent exported keeps its random name.
  const current =
    wanted === undefined ? undefined : (present.find((it) => it.metadata.name === name) ?? present[0]);
  if (wanted !== undefined)
    await applyIfChanged(hub, ENDPOINT_SLICE_EXPORTS, {
      current,
      desired: {
        metadata: { namespace: mailboxOf(cluster), name: current?.metadata.name ?? name },
        spec: describe(session, { ...wanted, current }),
      },
      fieldManager: MEMBER_MANAGER,
      returns: "metadata",
      signal,
    });
  for (const it of present)
    if (it !== current) await hub.delete(ENDPOINT_SLICE_EXPORTS, keyOf(it), { signal });
}

function describe(
  { cluster, stopwatch }: Session,
  it: Wanted & { readonly current: EndpointSliceExport | undefined },
): EndpointSliceExportSpec {
  const { namespace = "", name, uid = "", resourceVersion = "", generation = 0 } = it.slice.metadata;
  const before = it.current?.spec;
  const serviceName = it.service.slice(namespace.length + 1);
  const owner = { namespace, name: serviceName, namespacedName: it.service };
  const { endpointSliceReference, ownerServiceReference, ...facts } = before ?? {};
  // Annotations of a slice change without its endpoints: a change of annotations only is not uploaded.
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
            exportedSince: stopwatch.stamp(),
          },
  };
}
