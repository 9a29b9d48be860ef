import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  VIRTUAL_IPS,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { clusterOfMailbox, isViewNamespace } from "#api/networking.fleet.azure.com/names.ts";
import { isGlobalExport, readExport } from "#domain/exported-service.ts";
import type { KeptAddresses, MeshFleet } from "#domain/mesh-objects.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type FleetSnapshot, orNone, readFleet } from "../fleet/status.ts";

/** What the commands of `fairlead mesh` read of the hub. */

export interface MeshSnapshot extends FleetSnapshot {
  readonly fleet: MeshFleet;
}

export async function readMesh(hub: KubeClient, signal: AbortSignal): Promise<MeshSnapshot> {
  const [snapshot, namespaces, blocks, virtualIPs] = await Promise.all([
    readFleet(hub, signal).catch((cause: unknown) => {
      if (!hasCode(cause, "API_NOT_FOUND")) throw cause;
      throw new FleetError("OPTION_INVALID", "the cluster is not a hub; pass another --hub-context", {
        cause,
      });
    }),
    hub.list(NAMESPACES, { signal }),
    hub.list(ADDRESS_BLOCKS, { signal }).catch(orNone),
    hub.list(VIRTUAL_IPS, { signal }).catch(orNone),
  ]);
  const keptOf = (kind: KeptAddresses["kind"], items: readonly KubeObject[]): KeptAddresses[] =>
    items.map(({ metadata: { namespace: view = "", name } }) => ({ kind, view, name }));
  const kept = [...keptOf("AddressBlock", blocks.items), ...keptOf("VirtualIP", virtualIPs.items)];
  const views = namespaces.items.map((it) => it.metadata.name).filter(isViewNamespace);
  return { ...snapshot, fleet: { ...fleetOf(snapshot, views), kept } };
}

function fleetOf(snapshot: FleetSnapshot, views: readonly string[]): MeshFleet {
  const slices = Map.groupBy(snapshot.sliceExports, ({ metadata, spec: { ownerServiceReference: of } }) =>
    [metadata.namespace, of.namespace, of.name].join("/"),
  );
  return {
    profiles: snapshot.profiles,
    members: snapshot.members,
    views: new Set(views),
    namespaces: new Map(
      snapshot.reports.map((it) => [it.metadata.name, new Set(it.spec.namespaces)] as const),
    ),
    exports: snapshot.exports.flatMap((object) => {
      const { metadata, spec } = object;
      const cluster = clusterOfMailbox(metadata.namespace);
      const exported = readExport(object);
      if (cluster === undefined || spec === undefined || exported === undefined) return [];
      const { namespace, name } = spec.serviceReference;
      const { headless: isHeadless } = exported;
      const isGlobal = isGlobalExport(exported);
      const own = slices.get([metadata.namespace, namespace, name].join("/")) ?? [];
      return [{ cluster, namespace, name, slices: own.map((it) => it.metadata.name), isGlobal, isHeadless }];
    }),
  };
}

/** @throws {FleetError} `OPTION_INVALID` with the profiles that exist. */
export async function getProfile(
  hub: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<ClusterMeshProfile> {
  const found = await hub
    .find(CLUSTER_MESH_PROFILES, objectKey(undefined, name), { signal })
    .catch((error: unknown) => {
      if (!hasCode(error, "API_NOT_FOUND")) throw error;
    });
  if (found !== undefined) return found;
  const { items } = await hub.list(CLUSTER_MESH_PROFILES, { signal });
  const known = items.map((it) => it.metadata.name).join(", ");
  throw new FleetError(
    "OPTION_INVALID",
    `the fleet has no ClusterMeshProfile named ${JSON.stringify(name)}; it has ${known === "" ? "none" : known}`,
  );
}
