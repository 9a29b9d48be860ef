import { defined } from "@fairlead/base/defined.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { untilServed } from "@fairlead/dns/crd.ts";
import { createServiceSync, serialAt, type ZoneSync } from "@fairlead/dns/service-sync.ts";
import type { RecordTree } from "@fairlead/dns/tree.ts";
import { trimmedMeta } from "@fairlead/dns/trim.ts";
import { type ClusterSetZone, namespaceContribution, serviceContribution, zoneContribution } from "./zone.ts";

/** Keeps a cluster-set zone: imported services, their endpoints, and namespaces. */
export function createClusterSetSync(
  parts: { readonly client: KubeClient; readonly tree: RecordTree; readonly zone: ClusterSetZone },
  deps: RuntimeDeps,
): ZoneSync {
  const { client, tree, zone } = parts;
  tree.addZone({ origin: zone.origin, negativeTtl: zone.ttl, serial: serialAt(deps.clock.now()) });
  tree.put(`fixed ${zone.origin}`, zoneContribution(zone));
  return createServiceSync(
    "dns-clusterset",
    {
      client,
      tree,
      zone: {
        origin: zone.origin,
        services: MCS_SERVICE_IMPORTS,
        trim: trimmedImport,
        serviceLabel: MCS_SERVICE_NAME_LABEL,
        sliceLabels: [MCS_SOURCE_CLUSTER_LABEL],
        sliceAnnotations: [TRAFFIC_ANNOTATIONS.weight],
        ofNamespace: (key) => namespaceContribution(zone, key),
        ofService: (imported, slices) => serviceContribution(zone, imported, slices),
        served: (signal) => untilServed(client, MCS_SERVICE_IMPORTS, deps, signal),
      },
    },
    deps,
  );
}

function trimmedImport(imported: ServiceImport): ServiceImport {
  const { type, ports, ips } = imported.spec ?? { type: "Headless", ports: [], ips: [] };
  const spec = { type, ports, ...defined({ ips }) };
  return { ...trimmedMeta(imported), ...(imported.spec === undefined ? {} : { spec }) };
}
