/** Global Services on a real network: which clusters answer, by annotations, and what changes of pods and clusters cost. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { until } from "../support/waiting.ts";
import { parseTries, startLab, type TestLab } from "../support/lab-fixture.ts";
import { echoDeployment, flowScript, service, shellPod } from "../support/lab-manifests.ts";
import { annotate, makeNamespace, scale } from "../support/lab-actions.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const ONE = "member-1";
const TWO = "member-2";
const BOTH = [ONE, TWO] as const;
const HELLO = { namespace: "work", name: "hello" };
/** Two names for one port of the pods. */
const PORTS = { http: 80, api: 81 };
const GLOBAL = "service.cilium.io/global";
const SHARED = "service.cilium.io/shared";
const AFFINITY = "service.cilium.io/affinity";
/** The annotations of both Services when a test begins. */
const DEFAULTS = { [GLOBAL]: "true", [SHARED]: null, [AFFINITY]: null };
const URL = "http://hello.work.svc.cluster.local";

let lab: TestLab;

const set = async (cluster: string, annotations: Readonly<Record<string, string | null>>): Promise<void> =>
  annotate(await lab.client(cluster), SERVICES, HELLO, annotations);

/** Waits until many requests of a cluster are answered by these clusters, each of them, and no request fails. */
async function untilAnsweredBy(cluster: string, expected: readonly string[], url = `${URL}/`): Promise<void> {
  await until(
    `${expected.join(" and ")} answer in ${cluster}`,
    async () => {
      const answers = await lab.ask(cluster, "work/client", { url, count: 24 });
      return [...new Set(answers.map((it) => it?.cluster ?? "none"))].toSorted().join();
    },
    (it) => it === expected.join(),
    { everyMs: 0 },
  );
}

async function untilEachAnsweredBy(expected: Readonly<Record<string, readonly string[]>>): Promise<void> {
  await Promise.all(BOTH.map((it) => untilAnsweredBy(it, expected[it] ?? [])));
}

const EVERYWHERE = { [ONE]: BOTH, [TWO]: BOTH };

describeOnKernel("a Service that is global in two clusters", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "eglobal" });
    for (const cluster of BOTH) {
      await makeNamespace(await lab.client(cluster), "work");
      await lab.apply(
        cluster,
        shellPod({ namespace: "work", name: "client" }),
        echoDeployment(HELLO, 1),
        service(HELLO, PORTS),
      );
      await set(cluster, DEFAULTS);
    }
    await untilEachAnsweredBy(EVERYWHERE);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("is answered from both in each, at its own address, at both names of its port, in both families", async () => {
    for (const cluster of BOTH) {
      const { spec } = await (await lab.client(cluster)).get(SERVICES, objectKey("work", "hello"));
      await untilAnsweredBy(cluster, BOTH, `${URL}:81/`);
      for (const ip of spec?.clusterIPs ?? [])
        await untilAnsweredBy(cluster, BOTH, `http://${ip.includes(":") ? `[${ip}]` : ip}/`);
    }
  });

  it("is not answered by a cluster that does not share it, and continues to use the other", async () => {
    await set(ONE, { [SHARED]: "false" });
    await untilEachAnsweredBy({ [ONE]: BOTH, [TWO]: [TWO] });
    await set(ONE, DEFAULTS);
    await untilEachAnsweredBy(EVERYWHERE);
  });

  it("is on its own while the annotation of the namespace makes it local, and global again without it", async () => {
    const seal = async (value: string | null): Promise<void> =>
      annotate(
        await lab.client(TWO),
        NAMESPACES,
        { namespace: "", name: "work" },
        { "clustermesh.cilium.io/global": value },
      );
    await seal("false");
    await untilEachAnsweredBy({ [ONE]: [ONE], [TWO]: [TWO] });
    await seal(null);
    await untilEachAnsweredBy(EVERYWHERE);
  });

  it("with local affinity is answered by its own cluster while that has a pod, and by the others then", async () => {
    await set(ONE, { [AFFINITY]: "local" });
    await untilEachAnsweredBy({ [ONE]: [ONE], [TWO]: BOTH });
    await scale(await lab.client(ONE), HELLO, 0);
    await untilEachAnsweredBy({ [ONE]: [TWO], [TWO]: [TWO] });
    await scale(await lab.client(ONE), HELLO, 1);
    await untilEachAnsweredBy({ [ONE]: [ONE], [TWO]: BOTH });
    await set(ONE, DEFAULTS);
    await untilEachAnsweredBy(EVERYWHERE);
  });

  it("loses no request while both clusters roll out new pods", async () => {
    for (const cluster of BOTH) {
      await scale(await lab.client(cluster), HELLO, 2);
      const stream = { namespace: "work", name: "stream" };
      await lab.apply(cluster, shellPod(stream, flowScript(`${URL}/`, "kernel")));
    }
    const triesIn = async (cluster: string) =>
      parseTries(await lab.logOf(cluster, { namespace: "work", name: "stream" }));
    const begin = async (cluster: string): Promise<void> => {
      const rollOut = { metadata: { annotations: { rolledOut: String(systemClock.now()) } } };
      await (
        await lab.client(cluster)
      ).mergePatch(DEPLOYMENTS, objectKey("work", "hello"), { spec: { template: rollOut } });
    };
    for (const cluster of BOTH)
      await until(
        `requests in ${cluster}`,
        () => triesIn(cluster),
        (it) => it.length > 20,
      );
    await Promise.all(BOTH.map(begin));
    const pods = new Map<string, Set<string>>();
    for (const cluster of BOTH)
      await until(
        `the new pods of both clusters answer in ${cluster}`,
        async () => {
          const tries = await triesIn(cluster);
          pods.set(cluster, new Set(tries.flatMap((it) => it.answer?.pod ?? [])));
          return pods.get(cluster)?.size ?? 0;
        },
        // Two old and two new ones of each.
        (it) => it >= 8,
      );
    for (const cluster of BOTH) {
      const failed = (await triesIn(cluster)).filter((it) => it.answer === undefined);
      expect({ cluster, failed }).toEqual({ cluster, failed: [] });
    }
  });

  it("leaves no slices of other clusters when it is not global any more", async () => {
    await set(ONE, { [GLOBAL]: null });
    await untilEachAnsweredBy({ [ONE]: [ONE], [TWO]: [TWO] });
    const { items } = await (
      await lab.client(ONE)
    ).list(ENDPOINT_SLICES, {
      namespace: "work",
      labelSelector: "endpointslice.kubernetes.io/managed-by=endpointslice-global.fairlead.dev",
    });
    expect(items).toEqual([]);
  });
});
