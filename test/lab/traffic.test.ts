/** Requests, and established connections, while clusters are drained, weighed and failed over. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { eventuallyOne, until } from "../support/waiting.ts";
import { found, parseTries, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import type { ParsedTry } from "../../scripts/demo/requests.ts";
import {
  echoDeployment,
  fleetExport,
  flowScript,
  mcsExport,
  service,
  nodePod,
  shellPod,
} from "../support/lab-manifests.ts";
import { annotate, makeNamespace, scale } from "../support/lab-actions.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const ONE = "member-1";
const TWO = "member-2";
const BOTH = [ONE, TWO] as const;
const HELLO = { namespace: "work", name: "hello" };
/** Exported by the fleet's kind. */
const LEGACY = { namespace: "work", name: "legacy" };
const PORTS = [
  { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
  { name: "packets", protocol: "UDP", port: 81, targetPort: 8081 },
];
/** Pods that make new flows to what is exported by the multi-cluster kind: over IPv4, and the others for a while. */
const OTHERS = ["stream-v6", "stream-udp", "stream-udp-v6"] as const;
const STREAMS = ["stream", ...OTHERS] as const;

let lab: TestLab;

/** Requests of a separate pod, each over a new connection. */
const streamScript = (to: string): string => flowScript(to, "kernel");

/** The same with packets: each from a new socket, with a timeout of two seconds. */
const packetScript = (host: string): string =>
  `exec bash -c 'while :; do t=$(date +%s%3N); exec 3<>/dev/udp/${host}/81; echo ask >&3; a=$(timeout 2 head -n 1 <&3) || a=-; echo "$t $a"; sleep 0.1; done' 2>/dev/null`;

/** Requests over one connection until it breaks; a line has the number of connections that the previous request opened. */
const heldScript = (to: string): string =>
  `curl -s -m 3600 --rate 5/s -H 'Accept: application/json' -w '%{num_connects}\\n' '${to}?n=[1-100000]'`;

async function vipOf(cluster: string, name: string, separator = "."): Promise<string> {
  const client = await lab.client(cluster);
  const hasAddress = (it: { readonly spec?: { readonly ips?: readonly string[] } }): boolean =>
    (it.spec?.ips?.length ?? 0) > 0;
  const { spec } = await eventuallyOne(client, MCS_SERVICE_IMPORTS, objectKey("work", name), hasAddress);
  return found(spec?.ips?.find((it) => it.includes(separator)));
}
const urlOf = async (cluster: string, name: string): Promise<string> =>
  `http://${await vipOf(cluster, name)}/`;

/** The echo server answers packets, too. */
function withPackets(deployment: ReturnType<typeof echoDeployment>): object {
  const spec = deployment["spec"] as { template: { spec: { containers: { env: object[] }[] } } };
  for (const { env } of spec.template.spec.containers) env.push({ name: "ECHO_UDP_PORT", value: "8081" });
  return deployment;
}

async function startOthers(cluster: string): Promise<void> {
  const pod = (name: string, script: string): object => nodePod({ namespace: "work", name }, script);
  const [v4, v6] = [await vipOf(cluster, "hello"), await vipOf(cluster, "hello", ":")];
  await lab.apply(
    cluster,
    pod("stream-v6", streamScript(`http://[${v6}]/`)),
    pod("stream-udp", packetScript(v4)),
    pod("stream-udp-v6", packetScript(v6)),
  );
}

const logsOf = (cluster: string, pod: string, lines?: number): Promise<string> =>
  lab.logOf(cluster, { namespace: "work", name: pod }, lines);

/** @param last - The number of lines: frequent readers need not read all. Default: all. */
async function triesSince(
  cluster: string,
  pod: string,
  sinceMs: number,
  last?: number,
): Promise<readonly ParsedTry[]> {
  return parseTries(await logsOf(cluster, pod, last)).filter((it) => it.startedAtMs >= sinceMs);
}

/** Waits for requests that began after `sinceMs`, in both clusters, and checks who answered all of them. */
async function untilAllAnsweredBy(pod: string, sinceMs: number, clusters: readonly string[]): Promise<void> {
  for (const cluster of BOTH) {
    await until(
      `requests in ${cluster}`,
      () => triesSince(cluster, pod, sinceMs, 40),
      (it) => it.length >= 40,
    );
    const tries = await triesSince(cluster, pod, sinceMs);
    const others = tries
      .filter((it) => it.cluster === undefined || !clusters.includes(it.cluster))
      .map((it) => `${it.cluster ?? "none"} ${it.startedAtMs - sinceMs} ms later`);
    expect({ pod, cluster, others }).toEqual({ pod, cluster, others: [] });
    expect(new Set(tries.map((it) => it.cluster))).toEqual(new Set(clusters));
  }
}

/** Waits until all of the last requests in both clusters are answered by these. @returns Since when. */
async function untilAnsweredBy(
  pod: string,
  clusters: Readonly<Record<string, readonly string[]>>,
): Promise<number> {
  const sinceMs = systemClock.now();
  for (const cluster of BOTH)
    await until(
      `${clusters[cluster]?.join(" and ")} answer in ${cluster}`,
      async () => {
        const last = await triesSince(cluster, pod, sinceMs, 30);
        return last.length < 30 ? "" : [...new Set(last.map((it) => it.cluster ?? "none"))].toSorted().join();
      },
      (it) => it === clusters[cluster]?.join(),
    );
  return systemClock.now();
}
const everywhere = (...clusters: readonly string[]) => ({ [ONE]: clusters, [TWO]: clusters });

async function expectNoneFailed(pod: string, sinceMs: number): Promise<void> {
  for (const cluster of BOTH) {
    const failed = (await triesSince(cluster, pod, sinceMs)).filter((it) => it.cluster === undefined);
    expect({ cluster, failed }).toEqual({ cluster, failed: [] });
  }
}

/** Answers over the established connection, and the number of connections. */
async function held(
  cluster: string,
): Promise<{ readonly answers: readonly string[]; readonly connections: number }> {
  const lines = (await logsOf(cluster, "held")).split("\n").filter((it) => it !== "");
  const answers = lines
    .filter((it) => it.startsWith("{"))
    .map((it) => (JSON.parse(it) as { cluster: string }).cluster);
  const connections = lines.filter((it) => /^\d+$/.test(it)).reduce((sum, it) => sum + Number(it), 0);
  return { answers, connections };
}

const drain = (cluster: string, ...flags: readonly string[]) =>
  runFairlead(lab.stateRoot, [
    "drain",
    cluster,
    "--hub-kubeconfig",
    lab.layout.kubeconfig,
    "--hub-context",
    "hub",
    ...flags,
  ]);

/** Sets an annotation of the export that other clusters go by, or removes it. */
async function rule(
  cluster: string,
  name: string,
  [key, value]: readonly [string, string | null],
): Promise<void> {
  const of = name === "hello" ? MCS_SERVICE_EXPORTS : FLEET_SERVICE_EXPORTS;
  await annotate(await lab.client(cluster), of, { namespace: "work", name }, { [key]: value });
}

const scaleIn = async (cluster: string, name: string, replicas: number): Promise<void> =>
  scale(await lab.client(cluster), { namespace: "work", name }, replicas);

/** Makes the only pod of a cluster ready or not; it serves all the same. */
async function setReady(cluster: string, name: string, isReady: boolean): Promise<void> {
  const options = { namespace: "work", labelSelector: `app=${name}` };
  const [pod] = (await (await lab.client(cluster)).list(PODS, options)).items;
  const url = `http://${found(pod?.status?.podIP)}:8080/readyz/${isReady ? "on" : "off"}`;
  await lab.inPod(cluster, "work/client", `curl -s -X PUT ${url}`);
}

describeOnKernel("a fleet whose traffic is steered", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "etraffic" });
    for (const cluster of BOTH) {
      await makeNamespace(await lab.client(cluster), "work");
      await lab.apply(
        cluster,
        shellPod({ namespace: "work", name: "client" }),
        withPackets(echoDeployment(HELLO, 1)),
        service(HELLO, {}, { ports: PORTS }),
        mcsExport(HELLO),
        echoDeployment(LEGACY, 1),
        service(LEGACY),
        fleetExport(LEGACY),
      );
    }
    for (const cluster of BOTH)
      await lab.apply(
        cluster,
        nodePod({ namespace: "work", name: "stream" }, streamScript(await urlOf(cluster, "hello"))),
        nodePod({ namespace: "work", name: "stream-legacy" }, streamScript(await urlOf(cluster, "legacy"))),
      );
    for (const pod of ["stream", "stream-legacy"]) await untilAnsweredBy(pod, everywhere(ONE, TWO));
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("loses no request and no packet, in either family, while a cluster is drained, keeps its connections, and can lose its pods then", async () => {
    for (const cluster of BOTH) await startOthers(cluster);
    const each = (check: (pod: string) => Promise<unknown>) => Promise.all(STREAMS.map(check));
    await each((pod) => untilAnsweredBy(pod, everywhere(ONE, TWO)));
    const beganMs = systemClock.now();
    const { stdout } = await drain(TWO, "-o", "json");
    expect(JSON.parse(stdout)).toMatchObject({ cluster: TWO, mode: "Soft", carriedOutBy: [ONE, TWO] });
    await each((pod) => untilAnsweredBy(pod, everywhere(ONE)));
    // These connect to the only cluster that is left, and stay there when it is drained itself.
    for (const cluster of BOTH) {
      await lab.apply(
        cluster,
        shellPod({ namespace: "work", name: "held" }, heldScript(await urlOf(cluster, "hello"))),
      );
      await until(
        `a connection in ${cluster}`,
        () => held(cluster),
        (it) => it.answers.length > 3,
      );
    }
    await drain(TWO, "--undo");
    await untilAnsweredBy("stream", everywhere(ONE, TWO));

    await drain(ONE);
    await each((pod) => untilAnsweredBy(pod, everywhere(TWO)));
    const drainedMs = systemClock.now();
    for (const cluster of BOTH) {
      const { length } = (await held(cluster)).answers;
      const now = await until(
        `answers in ${cluster}`,
        () => held(cluster),
        (it) => it.answers.length > length + 5,
      );
      expect({ cluster, by: new Set(now.answers), connections: now.connections }).toEqual({
        cluster,
        by: new Set([ONE]),
        connections: 1,
      });
    }
    const status = ["status", "--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
    expect((await runFairlead(lab.stateRoot, status)).stdout).toMatch(/^member-1 .* Soft /m);

    await scaleIn(ONE, "hello", 0);
    await scaleIn(ONE, "hello", 1);
    await each((pod) => untilAllAnsweredBy(pod, drainedMs, [TWO]));
    await drain(ONE, "--undo");
    await each((pod) => untilAnsweredBy(pod, everywhere(ONE, TWO)));
    await each((pod) => expectNoneFailed(pod, beganMs));
    for (const cluster of BOTH)
      for (const name of OTHERS) await (await lab.client(cluster)).delete(PODS, objectKey("work", name));
  });

  it("keeps using a drained cluster if no other has the service, and reports it (C3)", async () => {
    const beganMs = systemClock.now();
    await (await lab.client(TWO)).delete(FLEET_SERVICE_EXPORTS, objectKey("work", "legacy"));
    await untilAnsweredBy("stream-legacy", everywhere(ONE));
    const { stdout } = await drain(ONE);
    expect(stdout).toContain("work/legacy");
    expect(stdout).not.toContain("work/hello");
    await untilAllAnsweredBy("stream-legacy", systemClock.now(), [ONE]);
    await lab.apply(TWO, fleetExport(LEGACY));
    await untilAnsweredBy("stream-legacy", everywhere(TWO));
    await drain(ONE, "--undo");
    await untilAnsweredBy("stream-legacy", everywhere(ONE, TWO));
    await expectNoneFailed("stream-legacy", beganMs);
    await expectNoneFailed("stream", beganMs);
  });

  it.each([
    ["legacy", "networking.fleet.azure.com/weight"],
    ["hello", "fairlead.dev/weight"],
  ])(
    "sends nothing to a cluster in which %s has weight 0, before its pods go, and loses nothing (A3)",
    async (name, annotation) => {
      const stream = name === "hello" ? "stream" : "stream-legacy";
      const beganMs = systemClock.now();
      await rule(ONE, name, [annotation, "0"]);
      const sinceMs = await untilAnsweredBy(stream, everywhere(TWO));
      await scaleIn(ONE, name, 0);
      await scaleIn(ONE, name, 1);
      await untilAllAnsweredBy(stream, sinceMs, [TWO]);
      await rule(ONE, name, [annotation, null]);
      await untilAnsweredBy(stream, everywhere(ONE, TWO));
      await expectNoneFailed(stream, beganMs);
    },
  );

  it("fails over by priority and back without losing a request (C3)", async () => {
    const beganMs = systemClock.now();
    await rule(TWO, "hello", ["fairlead.dev/priority", "1"]);
    await untilAnsweredBy("stream", everywhere(ONE));
    await setReady(ONE, "hello", false);
    await untilAnsweredBy("stream", everywhere(TWO));
    await setReady(ONE, "hello", true);
    await untilAnsweredBy("stream", everywhere(ONE));
    await rule(TWO, "hello", ["fairlead.dev/priority", null]);
    await untilAnsweredBy("stream", everywhere(ONE, TWO));
    await expectNoneFailed("stream", beganMs);
  });

  it("stays inside each cluster with local affinity, as long as that can serve (C3)", async () => {
    const beganMs = systemClock.now();
    await rule(ONE, "hello", ["fairlead.dev/affinity", "local"]);
    await untilAnsweredBy("stream", { [ONE]: [ONE], [TWO]: [TWO] });
    await setReady(ONE, "hello", false);
    await untilAnsweredBy("stream", everywhere(TWO));
    await setReady(ONE, "hello", true);
    await untilAnsweredBy("stream", { [ONE]: [ONE], [TWO]: [TWO] });
    await expectNoneFailed("stream", beganMs);
  });
});
