/**
 * The Multi-Cluster Services API, what its objects say (KEP-1645, "Exporting services", "Importing services", "Constraints
 * and Conflict Resolution"): each promise once, in three clusters. The same ground as the API's own conformance suite.
 */

import { isIPv4, isIPv6 } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { derivedServiceName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { TestLab } from "../support/lab-fixture.ts";
import {
  clustersOf,
  CLUSTERS,
  EXPORTER,
  importPorts,
  inEveryCluster,
  OTHER,
  PORTS,
  Scenario,
  startMcsLab,
} from "./mcs-scenario.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

let lab: TestLab;

const isReady = (it: ServiceImport): boolean =>
  findCondition(it.status?.conditions, "Ready")?.status === "True";

/** A service that one cluster exports. */
async function exported(
  at: string,
  spec: object = {},
  more: Parameters<Scenario["export"]>[1] = {},
): Promise<Scenario> {
  const scenario = await Scenario.start(lab, at);
  await scenario.serve(EXPORTER, spec);
  await scenario.export(EXPORTER, more);
  return scenario;
}

describeOnKernel("the Multi-Cluster Services API", () => {
  beforeAll(async () => {
    lab = await startMcsLab("m-imports");
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  describe.concurrent("importing services", () => {
    it("a ServiceImport exists only as long as at least one cluster exports", async () => {
      const shared = await exported("one-is-enough");
      const first = await shared.import(EXPORTER, isReady);
      await shared.serve(OTHER);
      await shared.export(OTHER);
      const both = await inEveryCluster((cluster) => shared.importOf(cluster, [EXPORTER, OTHER]));
      await shared.unexport(EXPORTER);
      const left = await inEveryCluster((cluster) => shared.importOf(cluster, [OTHER]));
      // Neither recreated nor moved: clients that resolved the name keep a valid address.
      expect(left.map((one) => one.metadata.uid)).toEqual(both.map((one) => one.metadata.uid));
      expect(left[0]?.spec?.ips).toEqual(first.spec?.ips);
      await shared.unexport(OTHER);
      await inEveryCluster((cluster) => shared.untilNoImport(cluster));
    });

    it("exporting a ClusterIP service makes a ServiceImport of type ClusterSetIP in each cluster; unexporting deletes it", async () => {
      const shared = await exported("cluster-ip");
      expect(await shared.condition(EXPORTER, "Valid", "True")).toBe("Valid");
      expect(await shared.condition(EXPORTER, "Ready", "True")).toBe("Exported");
      expect(await shared.condition(EXPORTER, "Conflict", "False")).toBe("NoConflicts");
      for (const one of await inEveryCluster((cluster) => shared.import(cluster, isReady))) {
        expect(one.spec?.type).toBe("ClusterSetIP");
        expect(clustersOf(one)).toEqual([EXPORTER]);
        // Consumers that look for endpoints themselves may: there are slices for every import.
        expect(one.status?.endpointSliceObjects).toBe("Present");
      }
      await shared.unexport(EXPORTER);
      await inEveryCluster((cluster) => shared.untilNoImport(cluster));
      for (const cluster of CLUSTERS) {
        const derived = objectKey(shared.namespace, derivedServiceName(shared.namespace, "hello"));
        expect(await (await lab.client(cluster)).find(SERVICES, derived)).toBeUndefined();
      }
    });

    it("exporting a headless service makes a ServiceImport of type Headless in each cluster; unexporting deletes it", async () => {
      const shared = await exported("headless", { clusterIP: "None" });
      for (const one of await inEveryCluster((cluster) => shared.import(cluster, isReady))) {
        expect(one.spec?.type).toBe("Headless");
        expect(one.status?.endpointSliceObjects).toBe("Present");
      }
      await shared.unexport(EXPORTER);
      await inEveryCluster((cluster) => shared.untilNoImport(cluster));
    });

    it("a Headless ServiceImport gets no clusterset IP", async () => {
      const shared = await exported("no-address", { clusterIP: "None" });
      await shared.import(EXPORTER, isReady);
      await shared.serve(OTHER, { clusterIP: "None" });
      await shared.export(OTHER);
      for (const one of await inEveryCluster((cluster) => shared.importOf(cluster, [EXPORTER, OTHER]))) {
        expect(one.spec?.ips).toBeUndefined();
        expect(one.spec?.ipFamilies).toEqual(["IPv4", "IPv6"]);
      }
    });

    it("a ClusterSetIP ServiceImport gets an IP for each IP family", async () => {
      const shared = await exported("addresses");
      for (const { spec } of await inEveryCluster((cluster) => shared.import(cluster, isReady))) {
        expect(spec?.ipFamilies).toEqual(["IPv4", "IPv6"]);
        expect(spec?.ips?.map((ip) => (isIPv4(ip) ? "IPv4" : isIPv6(ip) ? "IPv6" : ip))).toEqual(
          spec?.ipFamilies,
        );
      }
    });

    it("a cluster without the namespace has no ServiceImport, and gets one once the namespace exists", async () => {
      const shared = await Scenario.start(lab, "not-everywhere", [EXPORTER]);
      await shared.serve(EXPORTER);
      await shared.export(EXPORTER);
      await shared.import(EXPORTER, isReady);
      const client = await lab.client(OTHER);
      expect(await client.find(MCS_SERVICE_IMPORTS, shared.key)).toBeUndefined();
      await Scenario.start(lab, "not-everywhere", [OTHER]);
      await shared.import(OTHER, isReady);
    });
  });

  describe.concurrent("exporting services that cannot be", () => {
    it("an ExternalName service sets the Valid condition to False, and is imported nowhere", async () => {
      const name = { type: "ExternalName", externalName: "example.com" } as const;
      const shared = await Scenario.start(lab, "external-name");
      const client = await lab.client(EXPORTER);
      const metadata = { namespace: shared.namespace, name: "hello" };
      await client.create(SERVICES, {
        metadata,
        spec: { ...name, selector: { app: "hello" }, ports: PORTS },
      });
      await shared.export(EXPORTER);
      // The agent may hear of the export before it hears of the Service: NoService until then.
      await shared.condition(EXPORTER, "Valid", "False", "InvalidServiceType");
      // A younger export has come through: what was to come of the older one would be there.
      const younger = { namespace: shared.namespace, name: "younger" };
      await client.create(SERVICES, {
        metadata: younger,
        spec: { selector: { app: "hello" }, ports: PORTS },
      });
      await client.create(MCS_SERVICE_EXPORTS, { metadata: younger });
      for (const cluster of CLUSTERS) expect(await shared.importNames(cluster, 1)).toEqual(["younger"]);
    });

    it("an export without a Service waits for it", async () => {
      const shared = await Scenario.start(lab, "no-service");
      await shared.export(EXPORTER);
      expect(await shared.condition(EXPORTER, "Valid", "False")).toBe("NoService");
      await shared.serve(EXPORTER);
      expect(await shared.condition(EXPORTER, "Valid", "True")).toBe("Valid");
      await shared.import(OTHER, isReady);
    });
  });

  describe.concurrent("properties of a ClusterSetIP ServiceImport", () => {
    it("match the exported service's SessionAffinity and its configuration", async () => {
      const shared = await exported("affinity");
      const { spec } = await shared.import(EXPORTER);
      expect(spec?.sessionAffinity).toBe("ClientIP");
      expect(spec?.sessionAffinityConfig).toEqual({ clientIP: { timeoutSeconds: 10 } });
    });

    it("match the exported service's InternalTrafficPolicy", async () => {
      const cluster = await exported("policy-cluster", { internalTrafficPolicy: "Cluster" });
      const local = await exported("policy-local", { internalTrafficPolicy: "Local" });
      expect((await cluster.import(EXPORTER)).spec?.internalTrafficPolicy).toBe("Cluster");
      expect((await local.import(OTHER)).spec?.internalTrafficPolicy).toBe("Local");
    });

    it("match the exported service's TrafficDistribution", async () => {
      const shared = await exported("distribution", { trafficDistribution: "PreferClose" });
      expect((await shared.import(EXPORTER)).spec?.trafficDistribution).toBe("PreferClose");
    });

    it("match the exported service's ports", async () => {
      const ports = [...PORTS, { name: "grpc", protocol: "TCP" as const, port: 50, appProtocol: "h2c" }];
      const shared = await exported("ports", { ports });
      expect((await shared.import(EXPORTER)).spec?.ports).toEqual(importPorts(ports));
    });

    it("follow the Service when it changes", async () => {
      const shared = await exported("changing");
      await shared.import(OTHER, isReady);
      const client = await lab.client(EXPORTER);
      const ports = [{ name: "tcp", protocol: "TCP" as const, port: 43 }];
      await client.mergePatch(SERVICES, shared.key, {
        spec: { ports, sessionAffinity: "None", sessionAffinityConfig: null },
      });
      const { spec } = await shared.import(
        OTHER,
        (one) => one.spec?.ports[0]?.port === 43 && one.spec.sessionAffinity === "None",
      );
      expect(spec?.ports).toEqual(ports);
      expect(spec?.sessionAffinityConfig).toBeUndefined();
    });
  });

  describe.concurrent("labels and annotations", () => {
    const exportedMaps = (text: string) => ({
      exportedLabels: { [`dummy-label${text}`]: "true" },
      exportedAnnotations: { [`dummy-annotation${text}`]: "true" },
    });

    it("only those that the ServiceExport names as exported get to the ServiceImport", async () => {
      const shared = await exported("exported-labels", {}, exportedMaps(""));
      const { labels, annotations } = (await shared.import(EXPORTER)).metadata;
      expect(labels).toMatchObject({ "dummy-label": "true" });
      expect(annotations).toMatchObject({ "dummy-annotation": "true" });
      for (const map of [labels, annotations]) {
        expect(map).not.toHaveProperty("dummy-svc");
        expect(map).not.toHaveProperty("dummy-svcexport");
      }
    });

    it("that differ are those of the older export, and every export reports the conflict", async () => {
      const shared = await exported("other-labels", {}, exportedMaps(""));
      await shared.exportLater(OTHER, {}, exportedMaps("2"));
      expect(await shared.conflict()).toBe("AnnotationsConflict,LabelsConflict");
      const { labels, annotations } = (await shared.importOf(EXPORTER, [EXPORTER, OTHER])).metadata;
      expect(labels).toMatchObject({ "dummy-label": "true" });
      expect(annotations).toMatchObject({ "dummy-annotation": "true" });
      expect(labels).not.toHaveProperty("dummy-label2");
      expect(annotations).not.toHaveProperty("dummy-annotation2");
    });
  });

  describe.concurrent("a service that two clusters export differently", () => {
    it("exposes the union of the constituent service ports and raises a conflict", async () => {
      const shared = await exported("union");
      const [tcp] = PORTS;
      const stcp = { name: "stcp", protocol: "SCTP" as const, port: 142 };
      await shared.exportLater(OTHER, { ports: tcp === undefined ? [] : [tcp, stcp] });
      expect(await shared.conflict()).toBe("PortConflict");
      for (const { spec } of await inEveryCluster((cluster) => shared.importOf(cluster, [EXPORTER, OTHER])))
        expect(spec?.ports).toEqual([...importPorts(PORTS), stcp]);
    });

    it("keeps the ports of the older export if they conflict, and reports it in each ServiceExport", async () => {
      const shared = await exported("other-port");
      await shared.exportLater(OTHER, { ports: [{ name: "tcp", protocol: "TCP", port: 43 }] });
      expect(await shared.conflict()).toBe("PortConflict");
      for (const { spec } of await inEveryCluster((cluster) => shared.importOf(cluster, [EXPORTER, OTHER])))
        expect(spec?.ports).toEqual(importPorts(PORTS));
    });

    it("is headless if the older export is, and reports the conflict in each ServiceExport", async () => {
      const shared = await exported("headlessness");
      await shared.exportLater(OTHER, { clusterIP: "None" });
      expect(await shared.conflict()).toBe("TypeConflict");
      for (const { spec } of await inEveryCluster((cluster) => shared.importOf(cluster, [EXPORTER, OTHER])))
        expect(spec?.type).toBe("ClusterSetIP");
    });

    it("takes other settings from the older export too, and ends the conflict when one export is deleted", async () => {
      const shared = await exported("policies");
      await shared.exportLater(OTHER, {
        sessionAffinity: "None",
        sessionAffinityConfig: undefined,
        internalTrafficPolicy: "Local",
        trafficDistribution: "PreferClose",
        ipFamilyPolicy: "SingleStack",
      });
      expect(await shared.conflict()).toBe(
        "IPFamilyConflict,InternalTrafficPolicyConflict,SessionAffinityConflict,TrafficDistributionConflict",
      );
      const { spec } = await shared.importOf(EXPORTER, [EXPORTER, OTHER]);
      expect(spec).toMatchObject({ sessionAffinity: "ClientIP", internalTrafficPolicy: "Cluster" });
      expect(spec?.trafficDistribution).toBeUndefined();
      await shared.unexport(EXPORTER);
      expect(await shared.condition(OTHER, "Conflict", "False")).toBe("NoConflicts");
      await shared.import(
        EXPORTER,
        (one) => one.spec?.sessionAffinity === "None" && one.spec.internalTrafficPolicy === "Local",
      );
    });
  });
});
