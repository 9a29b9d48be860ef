import type { ExportedService, ModelPort } from "./exported-service.ts";

/** An export for tests: ClusterIP, port 80 named http, dual-stack, through the multi-cluster API. */
export function fakeExport(cluster: string, more: Partial<ExportedService> = {}): ExportedService {
  const createdAt = more.createdAt ?? "2026-01-01T00:00:00Z";
  return {
    cluster,
    namespace: "work",
    name: "hello",
    headless: false,
    ports: [fakePort("http", 80)],
    unitesPorts: false,
    ipFamilies: ["IPv4", "IPv6"],
    sessionAffinity: "None",
    affinityTimeoutSeconds: undefined,
    internalTrafficPolicy: "Cluster",
    trafficDistribution: undefined,
    weight: undefined,
    priority: undefined,
    affinity: undefined,
    exportTo: undefined,
    apis: [{ api: "mcs", createdAt, labels: {}, annotations: {} }],
    createdAt,
    ...more,
  };
}

export function fakePort(name: string, port: number, more: Partial<ModelPort> = {}): ModelPort {
  return { name, protocol: "TCP", port, appProtocol: undefined, targetPort: undefined, ...more };
}
