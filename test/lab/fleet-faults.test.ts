/** Requests that continue while parts of a fleet die and recover. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { eventuallyOne, until } from "../support/waiting.ts";
import { die, revive } from "./fault-tools.ts";
import {
  found,
  parseTries,
  podProcesses,
  runFairlead,
  startLab,
  type TestLab,
} from "../support/lab-fixture.ts";
import type { ParsedTry } from "../../scripts/demo/requests.ts";
import {
  echoDeployment,
  flowScript,
  mcsExport,
  nodePod,
  service,
  shellPod,
} from "../support/lab-manifests.ts";
import { makeNamespace, scale, setReplicas, untilReady } from "../support/lab-actions.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const HELLO = { namespace: "work", name: "hello" };
const CHURN = { namespace: "work", name: "churn" };
const HELLO_REPLICAS = 2;
const BY_NAME = "http://hello.work.svc.clusterset.local/";
/** Every new request must succeed from then on. Unit: milliseconds. */
const RECOVERED_AFTER_MS = 10_000;
let lab: TestLab;
/** Of the imported Service: requests to it ask no DNS server. */
let url = "";

/** Requests of a pod by itself, so that nothing that dies is needed to make them: it writes each into its log. */
const streamScript = (to: string): string => flowScript(to, "kernel");

async function triesSince(pod: string, sinceMs: number): Promise<readonly ParsedTry[]> {
  const log = await lab.logOf("member-2", { namespace: "work", name: pod });
  return parseTries(log).filter((it) => it.startedAtMs >= sinceMs);
}

/** Waits until `count` requests that began after `sinceMs` are in the log. */
async function untilTried(pod: string, sinceMs: number, count: number): Promise<readonly ParsedTry[]> {
  return until(
    `${count} requests`,
    () => triesSince(pod, sinceMs),
    (it) => it.length >= count,
  );
}

const clustersOf = (tries: readonly ParsedTry[]): readonly string[] =>
  [...new Set(tries.map((it) => it.cluster ?? "none"))].toSorted();

/** Requests by hand from the pod that waits. */
async function untilAnswered(from: string, clusters: readonly string[]): Promise<void> {
  await until(
    `${clusters.join(" and ")} answer in ${from}`,
    async () => {
      const answers = await lab.ask(from, "work/client", { url: BY_NAME, count: 20 });
      return [...new Set(answers.map((it) => it?.cluster ?? "none"))].toSorted();
    },
    (it) => it.join() === clusters.join(),
  );
}

const statusArgs = (): readonly string[] => [
  "status",
  "--hub-kubeconfig",
  lab.layout.kubeconfig,
  "--hub-context",
  "hub",
];

async function podsInDns(from: string): Promise<number> {
  const name = "churn.work.svc.clusterset.local";
  const text = await lab.inPod(from, "work/client", `dig +short ${name} A`);
  return text.split("\n").filter((it) => it !== "").length;
}

describeOnKernel("a fleet in which things die", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "efaults" });
    for (const cluster of ["member-1", "member-2"]) {
      await makeNamespace(await lab.client(cluster), "work");
      await lab.apply(
        cluster,
        shellPod({ namespace: "work", name: "client" }),
        echoDeployment(HELLO, HELLO_REPLICAS),
        service(HELLO),
        mcsExport(HELLO),
      );
    }
    await lab.apply(
      "member-1",
      echoDeployment(CHURN, 1),
      service(CHURN, { http: 8080 }, { clusterIP: "None" }),
      mcsExport(CHURN),
    );
    await untilAnswered("member-2", ["member-1", "member-2"]);
    const imported = await eventuallyOne(
      await lab.client("member-2"),
      MCS_SERVICE_IMPORTS,
      objectKey("work", "hello"),
      (it) => (it.spec?.ips?.length ?? 0) > 0,
    );
    url = `http://${found(imported.spec?.ips?.find((it) => it.includes(".")))}/`;
    await lab.apply(
      "member-2",
      nodePod({ namespace: "work", name: "stream" }, streamScript(url)),
      nodePod({ namespace: "work", name: "stream-by-name" }, streamScript(BY_NAME)),
    );
    for (const name of ["stream", "stream-by-name"])
      await untilReady(await lab.client("member-2"), { namespace: "work", name });
    await untilTried("stream", 0, 10);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  /** Programs outside the data path: requests succeed without them, by name too. */
  const CONTROL = [
    "hub/apiserver",
    "hub/hub",
    "member-1/apiserver",
    "member-1/member",
    "member-1/lab-controllers",
    "member-1/node-1",
    "member-2/apiserver",
    "member-2/member",
    "member-2/lab-controllers",
    "member-2/node-1",
  ];
  let replicas = 1;

  it.each(CONTROL)(
    "loses no request and no pod when %s is killed during churn and comes back",
    async (program) => {
      const one = await until(
        "no pod of the Deployment that was scaled is terminating",
        () => podProcesses(lab, "member-1"),
        (it) => it.length === HELLO_REPLICAS + replicas,
        { timeoutMs: 60_000 },
      );
      const pods = { one, two: await podProcesses(lab, "member-2") };
      const sinceMs = systemClock.now();
      const grown = (replicas % 2) + 1;
      const client = await lab.client("member-1");
      const change = setReplicas(client, CHURN, grown).catch(() => undefined);
      await die(lab, program);
      await revive(lab, program);
      await change;
      // Whether or not the API server had heard of it when it died.
      await setReplicas(client, CHURN, grown);
      replicas = grown;
      await until(
        `${grown} pods of churn in member-2`,
        () => podsInDns("member-2"),
        (it) => it === grown,
      );
      for (const pod of ["stream", "stream-by-name"]) {
        const tries = await untilTried(pod, sinceMs, 20);
        expect({ pod, failed: tries.filter((it) => it.cluster === undefined) }).toEqual({ pod, failed: [] });
      }
      // Pods of the Deployment that was scaled come and go; all others are the same processes.
      const living = new Set(await podProcesses(lab, "member-1"));
      expect(pods.one.filter((it) => !living.has(it)).length).toBeLessThanOrEqual(1);
      expect(await podProcesses(lab, "member-2")).toEqual(pods.two);
    },
  );

  it.each(["member-2/dns", "member-2/lab-dns"])(
    "answers by address all the time, and by name again, when %s is killed",
    async (program) => {
      const sinceMs = systemClock.now();
      await die(lab, program);
      await revive(lab, program);
      const backMs = systemClock.now();
      const direct = await untilTried("stream", sinceMs, 20);
      expect(direct.filter((it) => it.cluster === undefined)).toEqual([]);
      const tries = await untilTried("stream-by-name", backMs, 10);
      expect(tries.filter((it) => it.cluster === undefined)).toEqual([]);
    },
  );

  it("withdraws nothing while the whole hub is dead, and serves what changes inside a cluster", async () => {
    const sinceMs = systemClock.now();
    await lab.lab("kill", ["hub"]);
    await scale(await lab.client("member-2"), HELLO, 3);
    const { leaseSeconds } = lab.topology.spec;
    await until(
      "both clusters answer, and three pods of this one, well after the leases ended",
      () => triesSince("stream", sinceMs + 2 * leaseSeconds * 1000),
      (tries) =>
        new Set(tries.filter((it) => it.cluster === "member-2").map((it) => it.answer?.pod)).size === 3 &&
        tries.some((it) => it.cluster === "member-1"),
    );
    expect((await triesSince("stream", sinceMs)).filter((it) => it.cluster === undefined)).toEqual([]);
    await lab.lab("restore", ["hub"]);
    await until(
      "the third pod answers in the other cluster",
      async () => {
        const answers = await lab.ask("member-1", "work/client", { url: BY_NAME, count: 30 });
        return new Set(answers.filter((it) => it?.cluster === "member-2").map((it) => it?.pod)).size;
      },
      (it) => it === 3,
    );
    const tries = await triesSince("stream", sinceMs);
    expect(tries.filter((it) => it.cluster === undefined)).toEqual([]);
  });

  it("withdraws nothing of a member that is cut off from the hub only, and has its changes when the hub is there again", async () => {
    const hub = lab.cluster("hub").api.v4;
    const route = async (verb: string): Promise<void> => {
      const site = lab.layout.netnsOf(siteNetns(lab.cluster("member-1")));
      const { command, args } = inNetns(site, "ip", ["route", verb, "blackhole", `${hub}/32`]);
      await exec(command, args);
    };
    const sinceMs = systemClock.now();
    await route("add");
    try {
      await until(
        "the hub has lost sight of member-1",
        async () => (await runFairlead(lab.stateRoot, statusArgs(), { allowFailure: true })).stdout,
        (it) => /^member-1 +\w+ +(?!True)/m.test(it),
      );
      const { leaseSeconds } = lab.topology.spec;
      const tries = await until(
        "requests well after the lease ended",
        () => triesSince("stream", sinceMs + 2 * leaseSeconds * 1000),
        (it) => it.length >= 40,
      );
      expect(clustersOf(tries)).toEqual(["member-1", "member-2"]);
      await scale(await lab.client("member-1"), HELLO, 3);
    } finally {
      await route("delete");
    }
    await until(
      "the new pod of member-1 answers",
      () => triesSince("stream", sinceMs),
      (it) => new Set(it.filter((at) => at.cluster === "member-1").map((at) => at.answer?.pod)).size === 3,
    );
    expect((await triesSince("stream", sinceMs)).filter((it) => it.cluster === undefined)).toEqual([]);
    await until(
      "the hub sees member-1 again",
      async () => (await runFairlead(lab.stateRoot, statusArgs(), { allowFailure: true })).stdout,
      (it) => /^member-1 +True +True/m.test(it),
    );
  });

  it("has every new request succeed ten seconds after an exporting cluster died, and uses it again when it is back", async () => {
    await lab.lab("kill", ["member-1"]);
    const killedMs = systemClock.now();
    const late = await until(
      "requests long after",
      () => triesSince("stream", killedMs + RECOVERED_AFTER_MS),
      (it) => it.length >= 40,
    );
    expect(clustersOf(late)).toEqual(["member-2"]);
    await lab.lab("restore", ["member-1"]);
    const restoredMs = systemClock.now();
    const tries = await until(
      "both answer",
      () => triesSince("stream", restoredMs),
      (it) => it.some((one) => one.cluster === "member-1"),
    );
    expect(clustersOf(tries)).not.toContain("none");
    await untilAnswered("member-1", ["member-1", "member-2"]);
  });
});
