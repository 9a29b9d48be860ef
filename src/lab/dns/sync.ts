import { NAMESPACES, type Service, SERVICES } from "#api/core/v1/types.ts";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "#api/discovery/v1/types.ts";
import { type ObjectKey, splitKey } from "#api/meta/key.ts";
import { keysOfSliceChange, serialAt, type ZoneSync, zoneSync } from "#dns/sync.ts";
import type { RecordTree } from "#dns/tree.ts";
import { keysOfSlice, trimmedMeta, trimmedSlice } from "#dns/trim.ts";
import { createController } from "#kube/controller.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createInformer } from "#kube/informer.ts";
import { watching } from "#kube/source.ts";
import type { KubeClient } from "#kube/types.ts";
import { REVERSE_DOMAINS } from "./reverse.ts";
import { type ClusterZone, namespaceContribution, serviceContribution, zoneContribution } from "./zone.ts";

const BY_SERVICE = "service";

/**
 * Keeps the zone of a cluster and its reverse names. The server is the whole world's for its pods: the root is a zone too, so
 * that a name of nowhere gets an answer at once. (Refused, some resolvers would wait and ask again.)
 */
export function createClusterSync(
  parts: { readonly client: KubeClient; readonly tree: RecordTree; readonly zone: ClusterZone },
  deps: RuntimeDeps,
): ZoneSync {
  const { client, tree, zone } = parts;
  const services = createInformer(client, SERVICES, { trim: trimmedService }, deps);
  const slices = createInformer(
    client,
    ENDPOINT_SLICES,
    {
      labelSelector: SERVICE_NAME_LABEL,
      trim: (slice) => trimmedSlice(slice, [SERVICE_NAME_LABEL]),
      indexes: { [BY_SERVICE]: (slice) => keysOfSlice(slice, SERVICE_NAME_LABEL) },
    },
    deps,
  );
  const namespaces = createInformer(client, NAMESPACES, { trim: trimmedMeta }, deps);
  const serial = serialAt(deps.clock.now());
  for (const origin of [".", zone.origin, ...REVERSE_DOMAINS]) {
    tree.addZone({ origin, negativeTtl: zone.ttl, serial });
  }
  tree.put(`fixed ${zone.origin}`, zoneContribution(zone));

  function refresh(key: ObjectKey): void {
    const owner = `${zone.origin} ${key}`;
    if (splitKey(key).namespace === undefined) {
      const exists = namespaces.store.get(key) !== undefined;
      tree.put(owner, exists ? namespaceContribution(zone, key) : { records: [] });
      return;
    }
    const service = services.store.get(key);
    if (service === undefined) tree.remove(owner);
    else tree.put(owner, serviceContribution(zone, service, slices.store.byIndex(BY_SERVICE, key)));
  }

  const controller = createController(
    {
      name: "dns-cluster",
      concurrency: 1,
      sources: [
        watching(services),
        watching(namespaces),
        watching(slices, (change) => keysOfSliceChange(change, SERVICE_NAME_LABEL)),
      ],
      reconcile: (key) => {
        refresh(key);
        return Promise.resolve();
      },
    },
    deps,
  );
  return zoneSync({ controller, informers: [services, slices, namespaces] });
}

function trimmedService(service: Service): Service {
  const { type, clusterIP, clusterIPs, ports, externalName } = service.spec ?? {};
  return {
    ...trimmedMeta(service),
    spec: {
      ...(type === undefined ? {} : { type }),
      ...(clusterIP === undefined ? {} : { clusterIP }),
      ...(clusterIPs === undefined ? {} : { clusterIPs }),
      ...(ports === undefined ? {} : { ports }),
      ...(externalName === undefined ? {} : { externalName }),
    },
  };
}
