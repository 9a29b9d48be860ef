import { defined } from "@fairlead/base/defined.ts";
import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { REVERSE_DOMAINS } from "@fairlead/dns/reverse.ts";
import { createServiceSync, serialAt, type ZoneSync } from "@fairlead/dns/service-sync.ts";
import type { RecordTree } from "@fairlead/dns/tree.ts";
import { trimmedMeta } from "@fairlead/dns/trim.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type ClusterZone, namespaceContribution, serviceContribution, zoneContribution } from "./zone.ts";

/**
 * Keeps the zone of a cluster and its reverse names. The server is the whole world's for its pods: the root is a zone too, so
 * that a name of nowhere gets an answer at once. (Refused, some resolvers would wait and ask again.)
 */
export function createClusterSync(
  parts: { readonly client: KubeClient; readonly tree: RecordTree; readonly zone: ClusterZone },
  deps: RuntimeDeps,
): ZoneSync {
  const { client, tree, zone } = parts;
  const serial = serialAt(deps.clock.now());
  for (const origin of [".", zone.origin, ...REVERSE_DOMAINS]) {
    tree.addZone({ origin, negativeTtl: zone.ttl, serial });
  }
  tree.put(`fixed ${zone.origin}`, zoneContribution(zone));
  return createServiceSync(
    "dns-cluster",
    {
      client,
      tree,
      of: {
        services: SERVICES,
        trim: trimmedService,
        serviceLabel: SERVICE_NAME_LABEL,
        zones: [
          {
            origin: zone.origin,
            ofNamespace: (key) => namespaceContribution(zone, key),
            ofService: (service, slices) => serviceContribution(zone, service, slices),
          },
        ],
      },
    },
    deps,
  );
}

function trimmedService(service: Service): Service {
  const { type, clusterIP, clusterIPs, ports, externalName } = service.spec ?? {};
  return {
    ...trimmedMeta(service),
    spec: {
      ...defined({ type, clusterIP, clusterIPs, ports, externalName }),
    },
  };
}
