/**
 * Upgrades of a cluster that break something, and good ones under load, against the default rules of health checks: the upgrades,
 * the probes, the failures and the packets are real. In test/fleet/judge-experiment.test.ts they are drawn, and there are more.
 */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_UPGRADES,
  type HealthCheck,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  type UpdateRun,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { makeNamespace, scale } from "../support/lab-actions.ts";
import { found, parseTries, startLab, type TestLab } from "../support/lab-fixture.ts";
import {
  echoDeployment,
  flowScript,
  graceful,
  mcsExport,
  service,
  nodePod,
} from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { sampleOf } from "../support/sample.ts";
import { eventuallyOne, until } from "../support/waiting.ts";

const CANARY = "member-1";
const NEXT = "member-2";
const IMPORTER = "member-3";
const HELLO = { namespace: "work", name: "hello" };
const LOAD = { namespace: "work", name: "load" };
const REPLICAS = 4;
const URL = "http://hello.work.svc.clusterset.local/";
const BEFORE = "1.35";
const AFTER = "1.36";
/** From the request of a run to its end. Unit: milliseconds. */
const RUN_MS = 240_000;
const PATIENT = { timeoutMs: RUN_MS };
/** Longer than the 10 s between two reports: the first may be of the time before. */
const BAD: HealthCheck = { watchSeconds: 150, toleratedSeconds: 15, onFailure: "Rollback" };
const GOOD: HealthCheck = { watchSeconds: 45, toleratedSeconds: 15, onFailure: "Rollback" };

let lab: TestLab;
const hub = () => lab.client("hub");
const canary = () => lab.client(CANARY);

/** One thing that an upgrade breaks. */
interface Break {
  readonly is: string;
  readonly begin: () => Promise<unknown>;
  readonly end: () => Promise<unknown>;
  /** In the reason of the run. */
  readonly why: RegExp;
}

/** The Deployment, with something else in its container. Half of the pods are replaced at a time. */
async function deploy(
  change: object = {},
  annotations: Readonly<Record<string, string>> = {},
): Promise<void> {
  const made = graceful(echoDeployment(HELLO, REPLICAS)) as {
    spec: { template: { metadata: object; spec: { containers: object[] } } };
  };
  const { metadata, spec: pod } = made.spec.template;
  const containers = pod.containers.map((it) => ({ ...it, ...change }));
  const spec = {
    ...made.spec,
    strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "50%", maxSurge: 0 } },
    template: { metadata: { ...metadata, annotations }, spec: { ...pod, containers } },
  };
  await lab.apply(CANARY, { ...made, spec });
}

const program = (script: string) => ({
  image: "fairlead.dev/fairlead",
  command: ["node", "-e", script],
});
/** Every twentieth request fails. */
const FAILING = `let n=0;require("node:http").createServer((q,s)=>{s.statusCode=q.url!=="/readyz"&&++n%20===0?500:200;s.end()}).listen(8080,"::");`;
const policy = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { namespace: HELLO.namespace, name: "tight" },
  spec: {
    podSelector: { matchLabels: { app: HELLO.name } },
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: { matchLabels: { app: "front" } } }] }],
  },
};

/** Servers that never become ready are not waited for. */
const begun = (): Promise<void> => Promise.resolve();
const deployed = (is: string, change: object, why: RegExp, untilDone = healthy): Break => ({
  is,
  begin: async () => {
    await deploy(change);
    await untilDone();
  },
  end: () => deploy(),
  why,
});
const killed = (is: string, target: string, why: RegExp): Break => ({
  is,
  begin: () => lab.lab("kill", [target]),
  end: () => lab.lab("restore", [target]),
  why,
});

const BREAKS: readonly Break[] = [
  deployed(
    "a server whose readiness lies",
    { ...program("setInterval(()=>{},1e6)"), readinessProbe: { exec: { command: ["true"] } } },
    /flows to its services succeed/,
  ),
  deployed("a server that crashes", { command: ["false"] }, /endpoints become ready|flows to its/, begun),
  deployed(
    "a server that starts slowly",
    { readinessProbe: { httpGet: { path: "/readyz", port: "http" }, initialDelaySeconds: 600 } },
    /endpoints become ready/,
    begun,
  ),
  deployed("a server that fails 5 % of requests", program(FAILING), /flows to its services succeed/),
  killed("no cluster DNS", `${CANARY}/lab-dns`, /its cluster DNS resolves names/),
  {
    is: "a network policy that is too tight",
    begin: () => lab.apply(CANARY, policy),
    end: async () => (await canary()).delete(NETWORK_POLICIES, keyOf(policy)),
    why: /flows to its services succeed/,
  },
  killed("a node that is lost", `${CANARY}-node-2`, /nodes are ready|flows to its services succeed/),
];

interface Change {
  readonly is: string;
  readonly type: "Full" | "ControlPlaneOnly";
  readonly act: () => Promise<unknown>;
  readonly undo?: () => Promise<unknown>;
}

const changed = (is: string, act: () => Promise<unknown>): Change => ({
  is,
  type: "ControlPlaneOnly",
  act: async () => {
    await upgrade(AFTER, "--control-plane-only");
    await act();
    await healthy();
  },
  undo: () => upgrade(BEFORE, "--control-plane-only"),
});

const CHANGES: readonly Change[] = [
  changed("its servers are replaced", () => deploy({}, { again: "yes" })),
  changed("its servers become more and fewer again", async () => {
    for (const replicas of [2 * REPLICAS, REPLICAS]) await scale(await canary(), HELLO, replicas);
  }),
  { is: "each node is replaced", type: "Full", act: () => upgrade(AFTER) },
];

/** Waits until the canary is as at first. */
async function healthy(): Promise<void> {
  const client = await canary();
  await eventuallyOne(
    client,
    DEPLOYMENTS,
    keyOf({ metadata: HELLO }),
    ({ metadata, status }) =>
      status?.observedGeneration === metadata.generation &&
      status?.updatedReplicas === REPLICAS &&
      status.availableReplicas === REPLICAS &&
      status.replicas === REPLICAS,
  );
  await until(
    "as many endpoints as pods",
    async () => (await client.list(ENDPOINT_SLICES, { namespace: HELLO.namespace })).items,
    (slices) =>
      slices.every(
        (it) => (it.endpoints ?? []).filter((one) => one.conditions?.ready === true).length === REPLICAS,
      ),
  );
}

/** What a run asks of the engine of the canary, which is this test: an upgrade, or a rollback of it. */
const upgradeOf = async (read: () => Promise<UpdateRun>): Promise<string> => {
  const run = await until("an upgrade", read, (it) => canaryOf(it)?.operationId !== undefined, PATIENT);
  return found(canaryOf(run)?.operationId);
};
const rollbackOf = async (read: () => Promise<UpdateRun>): Promise<string> => {
  const run = await until("a rollback", read, (it) => canaryOf(it)?.rollback !== undefined, PATIENT);
  return `${canaryOf(run)?.operationId}-rollback`;
};

async function report(id: string, state: "Running" | "Succeeded"): Promise<void> {
  const key = objectKey(mailboxOf(CANARY), CANARY);
  const change = { status: { operation: { id, state } } };
  await (await hub()).mergePatch(CLUSTER_UPGRADES, key, change, { subresource: "status" });
}

async function upgrade(release: string, ...flags: readonly string[]): Promise<void> {
  await lab.lab("upgrade", ["--kubernetes-version", release, ...flags, CANARY], { timeoutMs: 110_000 });
}

/** Starts a run of two stages with one member each. */
async function startRun(
  name: string,
  type: "Full" | "ControlPlaneOnly",
  health: HealthCheck,
): Promise<() => Promise<UpdateRun>> {
  const client = await hub();
  await untilAt(BEFORE);
  // The second stage would leave an upgrade in progress.
  const afterGates = health === GOOD ? [{ displayName: "enough", type: "Approval" as const }] : [];
  await client.create(UPDATE_RUNS, {
    metadata: { name },
    spec: {
      state: "Run",
      managedClusterUpdate: { upgrade: { type, kubernetesVersion: `${AFTER}.0` } },
      strategy: {
        stages: [
          { name: "first", groups: [{ name: "canary" }], health, afterGates },
          { name: "second", groups: [{ name: "next" }] },
        ],
      },
    },
  });
  return () => client.get(UPDATE_RUNS, objectKey(undefined, name));
}

/** Until the canary has reported the release. */
async function untilAt(release: string): Promise<void> {
  const key = objectKey(mailboxOf(CANARY), CANARY);
  await until(
    `the report of ${release}`,
    async () => (await hub()).find(CLUSTER_UPGRADES, key),
    (it) => it?.status?.kubernetesVersion?.startsWith(release) !== false,
  );
}

const canaryOf = (run: UpdateRun) => membersOf(run)[0];
const nameOf = (what: string): string => what.toLowerCase().replaceAll(/\W+/g, "-");
const membersOf = ({ status }: UpdateRun) =>
  (status?.stages ?? []).flatMap((stage) => stage.groups.flatMap((it) => it.members));

describeOnKernel("an upgrade of a cluster that others probe", () => {
  beforeAll(async () => {
    const flags = ["--kubernetes-version", BEFORE, "--network-policy"];
    lab = await startLab({ name: "ebad", members: 3, nodes: 2, flags });
    for (const it of [CANARY, NEXT, IMPORTER]) await makeNamespace(await lab.client(it), HELLO.namespace);
    await deploy();
    const http = { name: "http", port: 80, targetPort: "http", appProtocol: "http" };
    await lab.apply(CANARY, service(HELLO, {}, { ports: [http] }), mcsExport(HELLO));
    await healthy();
    for (const [name, group] of Object.entries({ [CANARY]: "canary", [NEXT]: "next" }))
      await (
        await hub()
      ).mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), {
        metadata: {
          labels: { [UPDATE_GROUP_LABEL]: group },
          annotations: { [UPGRADER_ANNOTATION]: "External" },
        },
      });
  }, 180_000);
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it.each(sampleOf(BREAKS, [0]))(
    "is led back, and the next stage does not begin, if it leaves $is",
    async ({ is, begin, end, why }) => {
      const read = await startRun(nameOf(is), "ControlPlaneOnly", BAD);
      const id = await upgradeOf(read);
      await report(id, "Running");
      await begin();
      await upgrade(AFTER, "--control-plane-only");
      await report(id, "Succeeded");
      const back = await rollbackOf(read);
      await end();
      await upgrade(BEFORE, "--control-plane-only");
      await report(back, "Succeeded");
      const over = await until("the run has ended", read, ({ status }) => status?.outcome !== undefined);
      const [first, second] = membersOf(over);
      expect([over.status?.outcome, over.status?.rolledBack]).toEqual(["Failed", 1]);
      expect(first?.status.error?.message).toMatch(why);
      expect([second?.status.state, second?.operationId]).toEqual(["NotStarted", undefined]);
      await (await hub()).delete(UPDATE_RUNS, keyOf(over));
      await healthy();
    },
    RUN_MS,
  );

  it.each(sampleOf(CHANGES, []))(
    "is not stopped if under load $is",
    async ({ is, type, act, undo }) => {
      const client = await lab.client(IMPORTER);
      await lab.apply(IMPORTER, nodePod(LOAD, flowScript(URL, "kernel")));
      const read = await startRun(nameOf(is), type, GOOD);
      const id = await upgradeOf(read);
      await report(id, "Running");
      await act();
      await report(id, "Succeeded");
      const over = await until(
        "the second stage may begin",
        read,
        (it) => it.status?.outcome !== undefined || canaryOf(it)?.status.state === "Completed",
        PATIENT,
      );
      expect(membersOf(over).map((it) => it.status)).toMatchObject([
        { state: "Completed" },
        { state: "NotStarted" },
      ]);
      expect(parseTries(await lab.logOf(IMPORTER, LOAD)).length).toBeGreaterThan(100);
      await client.delete(PODS, keyOf({ metadata: LOAD }));
      await (await hub()).delete(UPDATE_RUNS, keyOf(over));
      await undo?.();
    },
    RUN_MS,
  );
});
