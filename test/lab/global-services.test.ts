/** Global Services on a real network: which clusters answer, by annotations, and what changes of pods and clusters cost. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES, NODES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, MANAGED_BY_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isReady } from "@fairlead/fleet/domain/pods.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";
import { checkout, parseTries, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { echoDeployment, flowScript, graceful, nodePod, service } from "../support/lab-manifests.ts";
import { annotate, makeNamespace, scale } from "../support/lab-actions.ts";
import { sampleOf } from "../support/sample.ts";
import { cut, heal } from "./fault-tools.ts";
import { answersOf, askScript, podsOf, ROWS, servicesOf } from "./global-table.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const ONE = "member-1";
const TWO = "member-2";
const isParallel = process.env["LAB_TOPOLOGY"] === "nat";
const BOTH = [ONE, TWO] as const;
const HELLO = { namespace: "work", name: "hello" };
/** Two names for one port of the pods. */
const PORTS = { http: 80, api: 81 };
const GLOBAL = "service.cilium.io/global";
const SHARED = "service.cilium.io/shared";
const AFFINITY = "service.cilium.io/affinity";
const SYNC = "service.cilium.io/global-sync-endpoint-slices";
const WEIGHT = "service.cilium.io/weight";
const GLOBAL_SLICES = "endpointslice-global.fairlead.dev";
const ROLL_OUTS = Array.from({ length: 20 }, (_, at) => at);
/** The annotations of both Services when a test begins. */
const DEFAULTS = { [GLOBAL]: "true", [SHARED]: null, [AFFINITY]: null, [SYNC]: null };
const URL = "http://hello.work.svc.cluster.local";

let lab: TestLab;

const set = async (cluster: string, annotations: Readonly<Record<string, string | null>>): Promise<void> =>
  annotate(await lab.client(cluster), SERVICES, HELLO, annotations);

/** Waits until many requests of a cluster are answered by these clusters, each of them, and no request fails. */
async function untilAnsweredBy(cluster: string, expected: readonly string[], url = `${URL}/`): Promise<void> {
  await until(
    `${expected.join(" and ")} answer in ${cluster}`,
    async () => {
      const answers = await lab.ask(cluster, "work/client", { url, count: 16 });
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
    lab = await startLab({ name: "eglobal", flags: ["--network-policy"] });
    for (const cluster of BOTH) {
      await makeNamespace(await lab.client(cluster), "work");
      await lab.apply(
        cluster,
        nodePod({ namespace: "work", name: "client" }),
        graceful(echoDeployment(HELLO, 1)),
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
      const hosts = (spec?.clusterIPs ?? []).map((it) => (it.includes(":") ? `[${it}]` : it));
      const urls = [`${URL}:81/`, ...hosts.map((it) => `http://${it}/`)];
      await Promise.all(urls.map((it) => untilAnsweredBy(cluster, BOTH, it)));
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

  // What a cluster's own service proxy cannot do.
  describe("with agents on its nodes", () => {
    it("with remote affinity is answered by the others while these have a pod, and by its own cluster then", async () => {
      await set(ONE, { [AFFINITY]: "remote" });
      await untilEachAnsweredBy({ [ONE]: [TWO], [TWO]: BOTH });
      await scale(await lab.client(TWO), HELLO, 0);
      await untilEachAnsweredBy({ [ONE]: [ONE], [TWO]: [ONE] });
      await scale(await lab.client(TWO), HELLO, 1);
      await untilEachAnsweredBy({ [ONE]: [TWO], [TWO]: BOTH });
      await set(ONE, DEFAULTS);
      await untilEachAnsweredBy(EVERYWHERE);
    });

    it("is answered from both where service proxies do not see the other's endpoints", async () => {
      await set(ONE, { [SYNC]: "false" });
      const client = await lab.client(ONE);
      const options = { namespace: "work", labelSelector: "kubernetes.io/service-name=hello" };
      await eventually(
        client,
        ENDPOINT_SLICES,
        (slices) => slices.every((it) => it.metadata.labels?.[MANAGED_BY_LABEL] !== GLOBAL_SLICES),
        options,
      );
      await untilEachAnsweredBy(EVERYWHERE);
      // The endpoints of the own cluster are the proxy's and the agent's.
      await scale(client, HELLO, 0);
      await untilEachAnsweredBy({ [ONE]: [TWO], [TWO]: [TWO] });
      await scale(client, HELLO, 1);
      await set(ONE, DEFAULTS);
      await untilEachAnsweredBy(EVERYWHERE);
    });

    it("is answered at the ports of its nodes as at its address", async () => {
      const client = await lab.client(ONE);
      const key = objectKey("work", "hello");
      const { spec } = await client.mergePatch(SERVICES, key, { spec: { type: "NodePort" } });
      const port = spec?.ports?.find((it) => it.name === "http")?.nodePort;
      const { items } = await client.list(NODES);
      const urls = (items[0]?.status?.addresses ?? [])
        .filter((it) => it.type === "InternalIP")
        .map(({ address }) => `http://${address.includes(":") ? `[${address}]` : address}:${port}/`);
      expect(urls).toHaveLength(2);
      // In a parallel network, other clusters may have nodes with the same addresses.
      const clients = isParallel ? [ONE] : BOTH;
      const untilAnswered = (expected: readonly string[]) =>
        Promise.all(clients.flatMap((from) => urls.map((url) => untilAnsweredBy(from, expected, url))));
      await set(ONE, { [SYNC]: "false" });
      await untilAnswered(BOTH);
      await set(ONE, { [SYNC]: null, [AFFINITY]: "remote" });
      await untilAnswered([TWO]);
      await set(ONE, DEFAULTS);
      await untilAnswered(BOTH);
      await client.mergePatch(SERVICES, key, { spec: { type: "ClusterIP" } });
      await untilEachAnsweredBy(EVERYWHERE);
    });

    const weigh = async (weight: string | null): Promise<void> => {
      const client = await lab.client(ONE);
      const { items } = await client.list(ENDPOINT_SLICES, {
        namespace: "work",
        labelSelector: `kubernetes.io/service-name=hello,${MANAGED_BY_LABEL}=endpointslice-controller.k8s.io`,
      });
      for (const { metadata } of items)
        await annotate(
          client,
          ENDPOINT_SLICES,
          { namespace: "work", name: metadata.name },
          { [WEIGHT]: weight },
        );
    };

    it("is answered as often as the weights of slices say, from here and from there", async () => {
      await weigh("9");
      for (const cluster of BOTH)
        await until(
          `${ONE} answers nine of ten requests in ${cluster}`,
          async () => {
            const answers = await lab.ask(cluster, "work/client", { url: `${URL}/`, count: 100 });
            return answers.filter((it) => it?.cluster === ONE).length / answers.length;
          },
          // Five standard deviations from one half, and from nine tenths.
          (it) => it > 0.75 && it < 1,
          { everyMs: 0 },
        );
      await weigh(null);
      await untilEachAnsweredBy(EVERYWHERE);
    });

    it("is not answered by endpoints in maintenance, from here or from there", async () => {
      await weigh("0");
      await untilEachAnsweredBy({ [ONE]: [TWO], [TWO]: [TWO] });
      await weigh(null);
      await untilEachAnsweredBy(EVERYWHERE);
    });
  });

  describe("as each row of the tables of Cluster Mesh", () => {
    const namespace = "table";
    /** The addresses of each Service, by cluster. */
    const addresses = new Map<string, Record<string, readonly string[]>>();

    beforeAll(async () => {
      await Promise.all(
        BOTH.map(async (cluster, at) => {
          const client = await lab.client(cluster);
          await makeNamespace(client, namespace);
          await lab.apply(cluster, ...podsOf());
          for (const name of ["ready", "leaving"])
            await eventuallyOne(client, PODS, objectKey(namespace, name), isReady);
          await lab.apply(cluster, ...servicesOf(at === 0 ? 0 : 1));
          const { items } = await client.list(SERVICES, { namespace });
          addresses.set(
            cluster,
            Object.fromEntries(
              items
                .filter(({ metadata }) => ROWS.some((it) => it.name === metadata.name))
                .map(({ metadata, spec }) => [metadata.name, spec?.clusterIPs ?? []]),
            ),
          );
          await maintain(cluster, at === 0 ? 0 : 1);
          await client.delete(PODS, objectKey(namespace, "leaving"));
        }),
      );
    });

    /** Gives the weight 0 to the slices of Services that are in maintenance in this cluster. */
    async function maintain(cluster: string, at: 0 | 1): Promise<void> {
      const client = await lab.client(cluster);
      for (const { name } of ROWS.filter((it) => it.sides[at].state === "maintenance")) {
        const labelSelector = `kubernetes.io/service-name=${name},${MANAGED_BY_LABEL}=endpointslice-controller.k8s.io`;
        // Of both families.
        const slices = await eventually(client, ENDPOINT_SLICES, (all) => all.length === 2, {
          namespace,
          labelSelector,
        });
        for (const { metadata } of slices)
          await annotate(client, ENDPOINT_SLICES, { namespace, name: metadata.name }, { [WEIGHT]: "0" });
      }
    }

    /** Rows of which others answer than they should, in one reading of all. */
    async function wrongRows(cluster: string, at: 0 | 1, drained?: 0 | 1): Promise<readonly string[]> {
      const script = askScript(addresses.get(cluster) ?? {});
      const answers = JSON.parse(await lab.inPod(cluster, "work/client", script)) as Record<
        string,
        readonly string[]
      >;
      return ROWS.flatMap((row) => {
        const wanted = answersOf(row, at, drained).map((it) => BOTH[it]);
        const [is, expected] = [answers[row.name]?.join(), wanted.length === 0 ? "none" : wanted.join()];
        return is === expected ? [] : [`${row.name}: ${is} in place of ${expected}`];
      });
    }

    const untilAllRight = (drained?: 0 | 1) =>
      Promise.all(
        BOTH.map((cluster, at) =>
          until(
            `all rows are right in ${cluster}`,
            () => wrongRows(cluster, at === 0 ? 0 : 1, drained),
            (it) => it.length === 0,
            { everyMs: 0 },
          ),
        ),
      );

    it("is answered by the clusters that its annotations and its endpoints name", async () => {
      await untilAllRight();
    });

    it("is answered by a drained cluster last, in every row", async () => {
      const drain = (...flags: readonly string[]) => {
        const hub = ["--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
        return runFairlead(lab.stateRoot, ["drain", TWO, ...hub, ...flags]);
      };
      await drain();
      await untilAllRight(1);
      await drain("--undo");
      await untilAllRight();
    });
  });

  it("is answered by its own cluster alone while packets to the other are lost, although both reach the hub", async () => {
    await cut(lab, { from: ONE, to: TWO }, { from: TWO, to: ONE });
    // In a parallel network, the relay next to the hub carries them.
    const isRelayed = isParallel;
    await untilEachAnsweredBy(isRelayed ? EVERYWHERE : { [ONE]: [ONE], [TWO]: [TWO] });
    await heal(lab);
    await untilEachAnsweredBy(EVERYWHERE);
  });

  it("loses no request while both clusters roll out new pods", async () => {
    for (const cluster of BOTH) {
      await scale(await lab.client(cluster), HELLO, 2);
      const stream = { namespace: "work", name: "stream" };
      await lab.apply(cluster, nodePod(stream, flowScript(`${URL}/`, "kernel")));
    }
    const triesIn = async (cluster: string) =>
      parseTries(await lab.logOf(cluster, { namespace: "work", name: "stream" }));
    const lastPodsIn = async (cluster: string): Promise<ReadonlySet<string>> =>
      new Set((await triesIn(cluster)).slice(-60).flatMap((it) => it.answer?.pod ?? []));
    const untilPods = (what: string, isEnough: (pods: ReadonlySet<string>) => boolean) =>
      Promise.all(BOTH.map((it) => until(`${what} answer in ${it}`, () => lastPodsIn(it), isEnough)));
    const rollOut = async (cluster: string): Promise<void> => {
      const template = { metadata: { annotations: { rolledOut: String(systemClock.now()) } } };
      const client = await lab.client(cluster);
      await client.mergePatch(DEPLOYMENTS, objectKey("work", "hello"), { spec: { template } });
    };
    for (const _round of sampleOf(ROLL_OUTS, [0])) {
      const [old = new Set()] = await untilPods("two pods of each cluster", (pods) => pods.size === 4);
      await Promise.all(BOTH.map(rollOut));
      await untilPods("new pods alone", (pods) => pods.size === 4 && old.isDisjointFrom(pods));
    }
    for (const cluster of BOTH) {
      const failed = (await triesIn(cluster)).filter((it) => it.answer === undefined);
      expect({ cluster, failed }).toEqual({ cluster, failed: [] });
    }
  }, 600_000);

  it("is shared as in the documentation of Cluster Mesh, with manifests that know nothing of this product", async () => {
    const namespace = "sky";
    const gliders = new Map<string, string>();
    for (const [at, cluster] of BOTH.entries()) {
      await makeNamespace(await lab.client(cluster), namespace);
      const file = `${checkout}test/compat/cilium/global-service-${at + 1}.yaml`;
      await lab.kubectl(cluster, ["apply", "-f", file]);
    }
    for (const cluster of BOTH) {
      const pods = await eventually(
        await lab.client(cluster),
        PODS,
        (all) => all.length === 3 && all.every(isReady),
        { namespace },
      );
      gliders.set(cluster, pods.find((it) => it.metadata.name.startsWith("glider"))?.metadata.name ?? "");
    }
    const untilReceived = (cluster: string, expected: string) =>
      until(
        `${expected} in ${cluster}`,
        async () => {
          const script = "for i in $(seq 16); do curl -s -m 2 station; echo; done";
          const text = await lab.inPod(cluster, `${namespace}/${gliders.get(cluster)}`, script);
          return [...new Set(text.match(/Cluster-\d/g))].toSorted().join(" ");
        },
        (it) => it === expected,
        { everyMs: 0 },
      );
    for (const cluster of BOTH) await untilReceived(cluster, "Cluster-1 Cluster-2");
    await lab.kubectl(ONE, [
      "annotate",
      "service",
      "-n",
      namespace,
      "station",
      "service.cilium.io/shared=false",
    ]);
    await untilReceived(TWO, "Cluster-2");
    await untilReceived(ONE, "Cluster-1 Cluster-2");
  });

  it("leaves no slices of other clusters when it is not global any more", async () => {
    await set(ONE, { [GLOBAL]: null });
    await untilEachAnsweredBy({ [ONE]: [ONE], [TWO]: [TWO] });
    const { items } = await (
      await lab.client(ONE)
    ).list(ENDPOINT_SLICES, {
      namespace: "work",
      labelSelector: `${MANAGED_BY_LABEL}=${GLOBAL_SLICES}`,
    });
    expect(items).toEqual([]);
  });
});
