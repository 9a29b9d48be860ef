import { defined } from "@fairlead/base/defined.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { untilServed } from "@fairlead/dns/crd.ts";
import { REVERSE_DOMAINS } from "@fairlead/dns/reverse.ts";
import { createServiceSync, serialAt, type ServiceZone, type ZoneSync } from "@fairlead/dns/service-sync.ts";
import type { RecordTree } from "@fairlead/dns/tree.ts";
import { trimmedMeta } from "@fairlead/dns/trim.ts";
import {
  type ClusterSetZone,
  namespaceContribution,
  serviceContribution,
  serviceName,
  zoneContribution,
} from "./zone.ts";

export interface ClusterSetZones {
  /** That of KEP-1645, whose names PTR records have. */
  readonly zone: ClusterSetZone;
  /** A zone with the same services and the rules of Fleetboard. */
  readonly fleetboard?: ClusterSetZone | undefined;
}

/** Keeps cluster-set zones: imported services, their endpoints, and namespaces. */
export function createClusterSetSync(
  parts: { readonly client: KubeClient; readonly tree: RecordTree } & ClusterSetZones,
  deps: RuntimeDeps,
): ZoneSync {
  const { client, tree, zone, fleetboard } = parts;
  const main = { ...zone, isReverse: true };
  // Most members never ask for it: its records are not computed before.
  const lazy = fleetboard === undefined ? [] : [{ ...fleetboard, hasClusterNames: true }];
  const serial = serialAt(deps.clock.now());
  for (const origin of REVERSE_DOMAINS) tree.addZone({ origin, negativeTtl: zone.ttl, serial });
  for (const of of [main, ...lazy]) {
    tree.addZone({ origin: of.origin, negativeTtl: of.ttl, serial });
    tree.put(`fixed ${of.origin}`, zoneContribution(of));
  }
  return createServiceSync(
    "dns-clusterset",
    {
      client,
      tree,
      of: {
        zones: [
          recordsOf(main),
          ...lazy.map((it) => ({ ...recordsOf(it), lazyName: (key: ObjectKey) => serviceName(it, key) })),
        ],
        services: MCS_SERVICE_IMPORTS,
        trim: trimmedImport,
        serviceLabel: MCS_SERVICE_NAME_LABEL,
        sliceLabels: [MCS_SOURCE_CLUSTER_LABEL],
        sliceAnnotations: [TRAFFIC_ANNOTATIONS.weight],
        served: (signal) => untilServed(client, MCS_SERVICE_IMPORTS, deps, signal),
      },
    },
    deps,
  );
}

function recordsOf(zone: ClusterSetZone): ServiceZone<ServiceImport> {
  return {
    origin: zone.origin,
    ofNamespace: (key) => namespaceContribution(zone, key),
    ofService: (imported, slices) => serviceContribution(zone, imported, slices),
  };
}

function trimmedImport(imported: ServiceImport): ServiceImport {
  const { type, ports, ips } = imported.spec ?? { type: "Headless", ports: [], ips: [] };
  const spec = { type, ports, ...defined({ ips }) };
  return { ...trimmedMeta(imported), ...(imported.spec === undefined ? {} : { spec }) };
}
