/** The Multi-Cluster Services API in clusters that have IPv4 alone: nothing waits for, or speaks of, another family. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TestLab } from "../support/lab-fixture.ts";
import { EXPORTER, inEveryCluster, Scenario, startMcsLab } from "./mcs-scenario.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

let lab: TestLab;

describeOnKernel("the Multi-Cluster Services API without IPv6", () => {
  beforeAll(async () => {
    lab = await startMcsLab("m-ipv4", ["--ip-family", "ipv4"]);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  describe.concurrent("a service that asks for both families where it can have them", () => {
    it("has one clusterset IP and slices of one family, and answers in every cluster", async () => {
      const shared = await Scenario.start(lab, "virtual");
      await shared.run(EXPORTER);
      expect((await shared.serve(EXPORTER)).spec?.ipFamilies).toEqual(["IPv4"]);
      await shared.export(EXPORTER);
      await shared.untilAnsweredBy([EXPORTER]);
      await inEveryCluster(async (cluster) => {
        const { spec } = await shared.import(cluster);
        expect(spec?.ipFamilies).toEqual(["IPv4"]);
        expect(spec?.ips).toHaveLength(1);
        const slices = await shared.slices(cluster, (all) => all.length > 0);
        expect(slices.map((one) => one.addressType)).toEqual(["IPv4"]);
        expect(await shared.lookUp(cluster, shared.host, "AAAA")).toEqual([]);
      });
    });

    it("is found by the IPv4 addresses of its pods where it is headless", async () => {
      const shared = await Scenario.start(lab, "headless");
      await shared.run(EXPORTER, 2);
      await shared.serve(EXPORTER, { clusterIP: "None" });
      await shared.export(EXPORTER);
      const addresses = await shared.podAddresses(EXPORTER, "IPv4", 2);
      await inEveryCluster(async (cluster) => {
        await shared.untilFound(cluster, [shared.host, "A"], addresses);
        expect(await shared.lookUp(cluster, shared.host, "AAAA")).toEqual([]);
      });
    });
  });
});
