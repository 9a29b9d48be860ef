import { expect, it } from "vitest";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import type { Contribution } from "@fairlead/dns/tree.ts";
import { MCS_SOURCE_CLUSTER_LABEL, type ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { namespaceContribution, serviceContribution, zoneContribution } from "./zone.ts";

const ZONE = { origin: "clusterset.local.", ttl: 5, isReverse: true };
const FLEETBOARD = { origin: "fleetboard.local.", ttl: 5, hasClusterNames: true };
const HTTP = { name: "http", port: 80, protocol: "TCP" } as const;

function imported(name: string, spec: NonNullable<ServiceImport["spec"]>): ServiceImport {
  return { metadata: { name, namespace: "work" }, spec };
}

function slice(
  cluster: string,
  weight: string,
  addresses: Readonly<Record<string, string | undefined>>,
): EndpointSlice {
  return {
    metadata: {
      name: cluster,
      namespace: "work",
      labels: { [MCS_SOURCE_CLUSTER_LABEL]: cluster },
      annotations: { [TRAFFIC_ANNOTATIONS.weight]: weight },
    },
    addressType: "IPv4",
    endpoints: Object.entries(addresses).map(([ip, hostname]) => ({
      addresses: [ip],
      ...(hostname === undefined ? {} : { hostname }),
    })),
    ports: [HTTP],
  };
}

/** A zone file: records, then names that exist without records and names that must not exist as comments. */
function zoneFile(parts: readonly Contribution[]): string {
  const records = parts.flatMap((it) => it.records);
  const having = new Set(records.map((it) => it.name));
  const empty = parts.flatMap((it) => it.names ?? []).filter((it) => !having.has(it));
  const lines = [
    ...records.map((it) => formatRecord(it)).toSorted(),
    ...empty.toSorted().map((it) => `; ${it} exists without records`),
    ...parts.flatMap((it) => it.reserved ?? []).map((it) => `; ${it} does not exist`),
  ];
  return `${lines.join("\n")}\n`;
}

it.each([
  ["cluster-set zone", ZONE],
  ["zone of Fleetboard", FLEETBOARD],
])(
  "the %s of a service, a headless service of two weights and a service without addresses",
  async (_, of) => {
    const zone = zoneFile([
      zoneContribution(of),
      namespaceContribution(of, "work"),
      serviceContribution(
        of,
        imported("web", {
          type: "ClusterSetIP",
          ports: [HTTP, { port: 53, protocol: "UDP" }],
          ips: ["10.96.0.9", "fd00:96::9"],
        }),
        [slice("east", "1", { "10.1.0.3": undefined })],
      ),
      serviceContribution(of, imported("db", { type: "Headless", ports: [HTTP] }), [
        slice("east", "3", { "10.1.0.1": "db-0", "10.1.0.2": undefined }),
        slice("west", "1", { "10.2.0.1": "db-0" }),
      ]),
      serviceContribution(of, imported("new", { type: "ClusterSetIP", ports: [HTTP] }), []),
    ]);
    await expect(zone).toMatchFileSnapshot(`goldens/${of.origin}zone`);
  },
);
