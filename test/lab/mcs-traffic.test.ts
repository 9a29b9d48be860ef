/**
 * The Multi-Cluster Services API, what packets and names do (KEP-1645, "Connectivity", "DNS", "EndpointSlice"): each promise
 * once, in three clusters. The same ground as the API's own conformance suite.
 */

import { isIPv6 } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { MANAGED_BY_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { MCS_SOURCE_CLUSTER_LABEL } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { TestLab } from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";
import {
  CLUSTERS,
  EXPORTER,
  inEveryCluster,
  OTHER,
  PORTS,
  Scenario,
  startMcsLab,
  urlOf,
} from "./mcs-scenario.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const FAMILIES = ["IPv4", "IPv6"] as const;
/** Without affinity, so that every endpoint gets its share. */
const ANY = { sessionAffinity: "None", sessionAffinityConfig: undefined };
const typeOf = (family: (typeof FAMILIES)[number]): string => (family === "IPv6" ? "AAAA" : "A");

let lab: TestLab;

/** A service that one cluster runs and exports. */
async function running(at: string, spec: object = {}, replicas = 1): Promise<Scenario> {
  const scenario = await Scenario.start(lab, at);
  await scenario.run(EXPORTER, replicas);
  await scenario.serve(EXPORTER, spec);
  await scenario.export(EXPORTER);
  return scenario;
}

describeOnKernel("the Multi-Cluster Services API", () => {
  beforeAll(async () => {
    lab = await startMcsLab("m-traffic");
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  describe.concurrent("an exported ClusterIP service", () => {
    let shared: Scenario;

    beforeAll(async () => {
      shared = await running("shared");
      await shared.slices(EXPORTER, (all) => all.length === FAMILIES.length);
    });

    it("is accessible through DNS from every cluster, by each of its addresses", async () => {
      await shared.untilAnsweredBy([EXPORTER]);
    });

    it("is found by <service>.<ns>.svc.clusterset.local, which resolves to the clusterset IP", async () => {
      await inEveryCluster(async (cluster) => {
        const { spec } = await shared.import(cluster, (one) => one.spec?.ips?.length === FAMILIES.length);
        for (const ip of spec?.ips ?? [])
          await shared.untilFound(cluster, [shared.host, isIPv6(ip) ? "AAAA" : "A"], [ip]);
      });
    });

    it("has one SRV record for one number, though TCP and UDP share it, and one for each named port", async () => {
      await inEveryCluster(async (cluster) => {
        for (const name of [shared.host, `_tcp._tcp.${shared.host}`, `_udp._udp.${shared.host}`]) {
          const text = await shared.inAsker(cluster, `nslookup -type=SRV ${name}.`);
          const records = text.split("\n").filter((line) => line.includes("="));
          expect(records).toEqual([expect.stringMatching(/\tservice = \d+ \d+ 42 hello\.shared\.svc\./)]);
        }
      });
    });

    it("leaves <service>.<ns>.svc.cluster.local to the local Service", async () => {
      const local = `hello.${shared.namespace}.svc.cluster.local`;
      const client = await lab.client(EXPORTER);
      const service = await client.get(SERVICES, shared.key);
      await shared.untilFound(EXPORTER, [local, "A"], [service.spec?.clusterIP ?? ""]);
      expect(await shared.lookUp(OTHER, local, "A")).toEqual([]);
    });

    it("has no name of one cluster's part: <clusterid>.<service> is reserved", async () => {
      await shared.import(OTHER, (one) => one.spec?.ips?.length === FAMILIES.length);
      expect(await shared.lookUp(OTHER, `${EXPORTER}.${shared.host}`, "A")).toEqual([]);
    });
  });

  describe.concurrent("a service", () => {
    it("that is not exported is not accessible in any cluster", async () => {
      const shared = await Scenario.start(lab, "not-exported");
      await shared.run(EXPORTER);
      await shared.serve(EXPORTER);
      // The pod would answer: it does so inside its cluster.
      const local = urlOf(`hello.${shared.namespace}.svc.cluster.local`, 42);
      await until(
        "the pod answers",
        () => shared.answeredBy(EXPORTER, [local], 1),
        (by) => by.join() === EXPORTER,
      );
      await inEveryCluster(async (cluster) => {
        expect(await shared.lookUp(cluster, shared.host, "ANY")).toEqual([]);
        expect(await shared.answeredBy(cluster, [urlOf(shared.host, 42)], 5)).toEqual(["none"]);
      });
    });

    it("in two clusters that only one exports leads to the exporting cluster alone", async () => {
      const shared = await Scenario.start(lab, "one-exporter");
      for (const cluster of [EXPORTER, OTHER]) {
        await shared.run(cluster);
        await shared.serve(cluster, ANY);
        await shared.podAddresses(cluster, "IPv4", 1);
      }
      await shared.export(EXPORTER);
      await shared.untilAnsweredBy([EXPORTER]);
    });

    it("that two clusters export leads to both, until one of them unexports", async () => {
      const shared = await running("two-exporters", ANY);
      await shared.run(OTHER);
      await shared.exportLater(OTHER, ANY);
      await shared.podAddresses(OTHER, "IPv4", 1);
      const ips = (await shared.import(OTHER, (one) => one.spec?.ips !== undefined)).spec?.ips;
      await inEveryCluster((cluster) =>
        until(
          `both answer in ${cluster}`,
          () => shared.answeredBy(cluster, [urlOf(shared.host, 42)], 20),
          (by) => by.join() === [OTHER, EXPORTER].join(),
        ),
      );
      await shared.unexport(EXPORTER);
      await shared.untilAnsweredBy([OTHER]);
      expect((await shared.import(OTHER)).spec?.ips).toEqual(ips);
    });

    it("with the same port name but other numbers in each cluster leads only to the cluster that exposes the port", async () => {
      const shared = await running("other-number", ANY);
      await shared.run(OTHER);
      await shared.exportLater(OTHER, { ...ANY, ports: [{ name: "tcp", port: 4242, targetPort: 8080 }] });
      await shared.podAddresses(OTHER, "IPv4", 1);
      await shared.importOf(EXPORTER, [EXPORTER, OTHER]);
      await shared.untilAnsweredBy([EXPORTER]);
    });

    it("with another port name in each cluster leads for each port only to the cluster that exposes it", async () => {
      const shared = await running("other-name", ANY);
      await shared.run(OTHER);
      await shared.exportLater(OTHER, { ...ANY, ports: [{ name: "tcp2", port: 4242, targetPort: 8080 }] });
      await shared.untilAnsweredBy([EXPORTER], 42);
      await shared.untilAnsweredBy([OTHER], 4242);
    });

    it("in use is not disturbed by a younger export that conflicts with it", async () => {
      const younger = [
        { at: "in-use-ports", spec: { ...ANY, ports: [{ name: "tcp", port: 4242, targetPort: 8080 }] } },
        { at: "in-use-type", spec: { ...ANY, clusterIP: "None" } },
      ];
      await Promise.all(
        younger.map(async ({ at, spec }) => {
          const shared = await running(at, ANY);
          await shared.run(OTHER);
          await shared.untilAnsweredBy([EXPORTER]);
          const isDone = new AbortController();
          const answers = inEveryCluster((cluster) => shared.answeredUntil(isDone.signal, cluster));
          await shared.exportLater(OTHER, spec);
          await shared.podAddresses(OTHER, "IPv4", 1);
          await shared.conflict();
          await inEveryCluster((cluster) => shared.importOf(cluster, [EXPORTER, OTHER]));
          isDone.abort();
          // A headless younger one is united into the older's VIP: its pods may answer, but no request is lost.
          for (const by of await answers) expect(by).not.toContain("none");
          if (at === "in-use-ports") for (const by of await answers) expect(by).toEqual([EXPORTER]);
        }),
      );
    });

    it("with a port that has no name in one cluster and another port in the other has both", async () => {
      const shared = await running("no-name", { ...ANY, ports: [{ port: 42, targetPort: 8080 }] });
      await shared.run(OTHER);
      await shared.exportLater(OTHER, { ...ANY, ports: [{ name: "tcp2", port: 4242, targetPort: 8080 }] });
      await shared.untilAnsweredBy([EXPORTER], 42);
      await shared.untilAnsweredBy([OTHER], 4242);
    });
  });

  describe.concurrent("EndpointSlices", () => {
    it("exist in the service's namespace in each cluster with the labels of the API; unexporting deletes them", async () => {
      const shared = await running("slices");
      await inEveryCluster(async (cluster) => {
        const imported = await shared.import(cluster);
        const all = await shared.slices(
          cluster,
          (some) => some.filter((one) => one.endpoints.length > 0).length === 2,
        );
        expect(all.map((one) => one.addressType).toSorted()).toEqual(FAMILIES);
        for (const { metadata } of all) {
          expect(metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL]).toBe(EXPORTER);
          expect(metadata.labels?.[MANAGED_BY_LABEL]).toBe("endpointslice-import.fairlead.dev");
          expect(metadata.ownerReferences).toMatchObject([
            { kind: "ServiceImport", name: "hello", uid: imported.metadata.uid },
          ]);
        }
      });
      await shared.unexport(EXPORTER);
      await inEveryCluster((cluster) => shared.slices(cluster, (all) => all.length === 0));
    });

    it("hold endpoints of one cluster each", async () => {
      const shared = await running("slices-of-two");
      await shared.run(OTHER);
      await shared.exportLater(OTHER, {});
      for (const cluster of CLUSTERS) {
        const all = await shared.slices(
          cluster,
          (some) => some.filter((one) => one.endpoints.length > 0).length === 4,
        );
        const sources = all.map(
          (one) => `${one.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL]} ${one.addressType}`,
        );
        expect(sources.toSorted()).toEqual(
          [OTHER, EXPORTER].flatMap((of) => FAMILIES.map((family) => `${of} ${family}`)),
        );
      }
    });
  });

  describe.concurrent("a headless service", () => {
    const REPLICAS = 2;
    let shared: Scenario;

    beforeAll(async () => {
      shared = await running("headless", { clusterIP: "None" }, REPLICAS);
    });

    it("is found by its name as the addresses of all its ready pods", async () => {
      for (const family of FAMILIES)
        await inEveryCluster(async (cluster) => {
          const addresses = await shared.addressesFrom(cluster, EXPORTER, family, REPLICAS);
          await shared.untilFound(cluster, [shared.host, typeOf(family)], addresses);
        });
    });

    it("has one SRV record for each endpoint, which leads to it", async () => {
      await inEveryCluster(async (cluster) => {
        const addresses = await Promise.all(
          FAMILIES.map((family) => shared.addressesFrom(cluster, EXPORTER, family, REPLICAS)),
        );
        const targets = addresses
          .flat()
          .map((it) => `${it.replaceAll(/[.:]/g, "-")}.${EXPORTER}.${shared.host}.`);
        const records = await until(
          `SRV records in ${cluster}`,
          () => shared.lookUp(cluster, shared.host, "SRV"),
          (lines) => lines.length === targets.length,
        );
        expect(records.map((line) => line.split(" ").slice(2).join(" ")).toSorted()).toEqual(
          targets.map((target) => `8080 ${target}`).toSorted(),
        );
      });
    });

    it("of a StatefulSet has a name for each pod, which leads to it from every cluster", async () => {
      const stateful = await Scenario.start(lab, "stateful");
      await stateful.serve(EXPORTER, { clusterIP: "None" });
      await stateful.export(EXPORTER);
      await stateful.runStateful(EXPORTER, REPLICAS);
      await inEveryCluster(async (cluster) => {
        const all = await stateful.slices(
          cluster,
          (some) =>
            some.length === FAMILIES.length &&
            some.every(
              (one) => one.endpoints.filter((it) => it.conditions?.ready === true).length === REPLICAS,
            ),
        );
        for (const { addressType, endpoints } of all)
          for (const { hostname = "", addresses } of endpoints) {
            expect(hostname).toMatch(/^hello-[01]$/);
            const name = `${hostname}.${EXPORTER}.${stateful.host}`;
            await stateful.untilFound(cluster, [name, addressType === "IPv6" ? "AAAA" : "A"], addresses);
            await until(
              `${name} answers in ${cluster}`,
              () => stateful.answeredBy(cluster, [urlOf(name, 8080)], 1),
              (by) => by.join() === EXPORTER,
            );
          }
      });
    });
  });

  it("a Service with its own ports has no endpoints on a port that no cluster exports", async () => {
    const shared = await running("no-such-port", { ports: PORTS.slice(0, 1) });
    await shared.untilAnsweredBy([EXPORTER]);
    expect(await shared.answeredBy(OTHER, [urlOf(shared.host, 43)], 1)).toEqual(["none"]);
  });
});
