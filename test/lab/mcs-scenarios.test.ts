/** What KEP-1645 promises to those who share a service between two clusters, with real packets. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { objectKey } from "#api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { findCondition } from "#kube/conditions.ts";
import { eventuallyOne } from "../fleet/fleet.ts";
import { startLab, type TestLab, until } from "./lab-fixture.ts";
import { echoDeployment, KINDS, mcsExport, namespace, service, shellPod } from "./lab-manifests.ts";
import { describeOnKernel } from "./netns-fixture.ts";

const FIRST = "member-1";
const SECOND = "member-2";
const CLUSTERS = [FIRST, SECOND] as const;
const ASKER = { namespace: "askers", name: "asker" };
let lab: TestLab;

const helloIn = (at: string) => ({ namespace: at, name: "hello" });
const urlOf = (at: string, port = 80): string => `http://hello.${at}.svc.clusterset.local:${port}/`;

async function deploy(cluster: string, at: string, ...more: readonly object[]): Promise<void> {
  await lab.apply(cluster, namespace(at), echoDeployment(helloIn(at), 1), ...more);
}

async function ask(cluster: string, url: string, count: number): Promise<readonly string[]> {
  const answers = await lab.ask(cluster, `${ASKER.namespace}/${ASKER.name}`, { url, count });
  return [...new Set(answers.map((it) => it?.cluster ?? "none"))].toSorted();
}

/** In both clusters, every one of 20 requests is answered by one of these clusters, and each of them answers some. */
async function untilAnswered(by: readonly string[], url: string): Promise<void> {
  for (const cluster of CLUSTERS) {
    await until(
      `${by.join(" and ")} answer ${url} in ${cluster}`,
      () => ask(cluster, url, 20),
      (clusters) => clusters.join() === by.join(),
    );
  }
}

async function untilConflict(at: string, status: string, reason: string): Promise<void> {
  for (const cluster of CLUSTERS) {
    await eventuallyOne(await lab.client(cluster), MCS_SERVICE_EXPORTS, objectKey(at, "hello"), (it) => {
      const condition = findCondition(it.status?.conditions, "Conflict");
      return condition?.status === status && condition.reason === reason;
    });
  }
}

async function untilImported(
  cluster: string,
  at: string,
  isSo: (it: ServiceImport) => boolean = () => true,
): Promise<ServiceImport> {
  return eventuallyOne(await lab.client(cluster), MCS_SERVICE_IMPORTS, objectKey(at, "hello"), isSo);
}

async function lookUp(cluster: string, name: string, type: string): Promise<readonly string[]> {
  const text = await lab.inPod(cluster, `${ASKER.namespace}/${ASKER.name}`, `dig +short ${name} ${type}`);
  return text.split("\n").filter((it) => it !== "");
}

describeOnKernel("a service that two clusters share by the Multi-Cluster Services API", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "emcs" });
    for (const cluster of CLUSTERS) {
      await lab.apply(cluster, namespace(ASKER.namespace), shellPod(ASKER));
      const ready = ["wait", "pod", ASKER.name, "--for=condition=Ready", "--timeout=60s"];
      await lab.kubectl(cluster, ["-n", ASKER.namespace, ...ready]);
    }
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("is served by the clusters that export it, not by one that only has it", async () => {
    const at = "one-exporter";
    await deploy(SECOND, at, service(helloIn(at)));
    await deploy(FIRST, at, service(helloIn(at)), mcsExport(helloIn(at)));
    await untilAnswered([FIRST], urlOf(at));
  });

  it("keeps the port numbers of the older export: the other cluster's pods get no requests for them", async () => {
    const at = "other-number";
    await deploy(FIRST, at, service(helloIn(at)), mcsExport(helloIn(at)));
    await untilImported(FIRST, at);
    await deploy(SECOND, at, service(helloIn(at), { http: 81 }), mcsExport(helloIn(at)));
    await untilConflict(at, "True", "PortConflict");
    for (const cluster of CLUSTERS) {
      const { spec } = await untilImported(cluster, at);
      expect(spec?.ports).toEqual([{ name: "http", protocol: "TCP", port: 80 }]);
    }
    await untilAnswered([FIRST], urlOf(at));
    expect(await ask(SECOND, urlOf(at, 81), 2)).toEqual(["none"]);
  });

  it("has the ports of both, each served by the cluster that has it", async () => {
    const at = "other-port";
    await deploy(FIRST, at, service(helloIn(at)), mcsExport(helloIn(at)));
    await untilImported(FIRST, at);
    await deploy(SECOND, at, service(helloIn(at), { admin: 81 }), mcsExport(helloIn(at)));
    await untilConflict(at, "True", "PortConflict");
    for (const cluster of CLUSTERS) await untilImported(cluster, at, (it) => it.spec?.ports.length === 2);
    await untilAnswered([FIRST], urlOf(at));
    await untilAnswered([SECOND], urlOf(at, 81));
  });

  it("is of the type of the older export in both clusters", async () => {
    const at = "other-type";
    await deploy(FIRST, at, service(helloIn(at)), mcsExport(helloIn(at)));
    await untilImported(FIRST, at);
    await deploy(
      SECOND,
      at,
      service(helloIn(at), { http: 80 }, { clusterIP: "None" }),
      mcsExport(helloIn(at)),
    );
    await untilConflict(at, "True", "TypeConflict");
    for (const cluster of CLUSTERS) {
      const { spec } = await untilImported(cluster, at, (it) => it.spec?.type === "ClusterSetIP");
      const name = `hello.${at}.svc.clusterset.local`;
      expect([...(await lookUp(cluster, name, "A")), ...(await lookUp(cluster, name, "AAAA"))]).toEqual(
        spec?.ips,
      );
    }
  });

  it("stays while one export is left, and ends in both clusters with the last", async () => {
    const at = "one-exporter";
    await lab.apply(SECOND, mcsExport(helloIn(at)));
    await untilAnswered(CLUSTERS, urlOf(at));
    const { ips } = (await untilImported(FIRST, at)).spec ?? {};
    await lab.kubectl(FIRST, ["-n", at, "delete", KINDS.mcsExport, "hello"]);
    await untilAnswered([SECOND], urlOf(at));
    // Who has looked the name up before goes on with what they know.
    expect((await untilImported(FIRST, at)).spec?.ips).toEqual(ips);
    await lab.kubectl(SECOND, ["-n", at, "delete", KINDS.mcsExport, "hello"]);
    for (const cluster of CLUSTERS) {
      const client = await lab.client(cluster);
      await until(
        `no import in ${cluster}`,
        () => client.find(MCS_SERVICE_IMPORTS, objectKey(at, "hello")),
        (it) => it === undefined,
      );
    }
  });

  it("gives each pod of a StatefulSet a name that leads to it from the other cluster", async () => {
    const at = "stateful";
    const { spec } = echoDeployment(helloIn(at), 2) as { readonly spec: object };
    const set = {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata: helloIn(at),
      spec: { ...spec, serviceName: "hello" },
    };
    await lab.apply(SECOND, namespace(at));
    await lab.apply(FIRST, namespace(at), set, mcsExport(helloIn(at)));
    await lab.apply(FIRST, service(helloIn(at), { http: 80 }, { clusterIP: "None" }));
    await lab.kubectl(FIRST, ["-n", at, "rollout", "status", "statefulset/hello", "--timeout=60s"]);
    for (const pod of ["hello-0", "hello-1"]) {
      const name = `${pod}.${FIRST}.hello.${at}.svc.clusterset.local`;
      const url = `http://${name}:8080/`;
      const [answer] = await until(
        `an answer of ${name}`,
        () => lab.ask(SECOND, `${ASKER.namespace}/${ASKER.name}`, { url, count: 1 }),
        (it) => it[0] !== undefined,
      );
      expect(answer?.pod).toBe(pod);
      expect(await lookUp(SECOND, name, "A")).toHaveLength(1);
    }
  });

  it("is found by nslookup with one SRV record, and nothing beside it that looks like another", async () => {
    const name = "hello.other-number.svc.clusterset.local";
    for (const cluster of CLUSTERS) {
      const pod = `${ASKER.namespace}/${ASKER.name}`;
      const text = await lab.inPod(cluster, pod, `nslookup -type=SRV ${name}.`);
      const records = text.split("\n").filter((it) => it.includes("="));
      expect(records).toEqual([expect.stringMatching(/\tservice = \d+ \d+ 80 hello\.other-number\./)]);
    }
  });
});
