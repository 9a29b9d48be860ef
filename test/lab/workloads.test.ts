import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DaemonSet, Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { found, startLab, type TestLab } from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";

/** Workloads as people run them: by the real kubectl, on nodes with real pods. */
describe("workloads of a lab, by kubectl", () => {
  const CLUSTER = "member-1";
  const NODES = ["member-1-node-1", "member-1-node-2"] as const;
  let lab: TestLab;
  let client: KubeClient;

  beforeAll(async () => {
    lab = await startLab({ name: "f-work", members: 1, nodes: 2 });
    client = await lab.client(CLUSTER);
  }, 110_000);
  afterAll(() => lab[Symbol.asyncDispose]());

  async function kubectl(...args: string[]): Promise<string> {
    return (await lab.kubectl(CLUSTER, args, { timeoutMs: 90_000 })).stdout;
  }
  async function apply(...objects: readonly object[]): Promise<void> {
    const input = objects.map((it) => JSON.stringify(it)).join("\n---\n");
    await lab.kubectl(CLUSTER, ["apply", "-f", "-"], { input });
  }
  /** What kubectl says when it fails. */
  async function refused(...args: string[]): Promise<string> {
    const result = await lab.kubectl(CLUSTER, args, { timeoutMs: 90_000, allowFailure: true });
    expect(result.exitCode).not.toBe(0);
    return result.stderr;
  }
  const podsOf = async (app: string): Promise<readonly Pod[]> =>
    (await client.list(PODS, { namespace: "default", labelSelector: `app=${app}` })).items.filter(
      (pod) => pod.metadata.deletionTimestamp === undefined,
    );

  const container = (env: string) => ({
    name: "c",
    image: "fairlead.dev/echo",
    env: [{ name: "V", value: env }],
  });
  const template = (app: string) => ({
    metadata: { labels: { app } },
    spec: { containers: [container("1")], terminationGracePeriodSeconds: 0 },
  });
  const deployment = (app: string, replicas: number): Deployment => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: app },
    spec: { replicas, selector: { matchLabels: { app } }, template: template(app) },
  });
  const daemonSet = (app: string): DaemonSet => ({
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: app },
    spec: { selector: { matchLabels: { app } }, template: template(app) },
  });

  it("roll out, roll back, restart, and wait while paused", async () => {
    await apply(deployment("web", 2));
    expect(await kubectl("rollout", "status", "deployment/web", "--timeout=60s")).toContain(
      "successfully rolled out",
    );
    await kubectl("set", "env", "deployment/web", "V=2");
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s");
    expect(await kubectl("rollout", "history", "deployment/web")).toMatch(/^1 .*\n2 /mv);
    await kubectl("rollout", "undo", "deployment/web");
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s");
    expect((await podsOf("web")).map((pod) => pod.spec?.containers[0]?.env?.[0]?.value)).toEqual(["1", "1"]);
    await kubectl("rollout", "pause", "deployment/web");
    await kubectl("set", "env", "deployment/web", "V=3");
    await kubectl("scale", "deployment/web", "--replicas=3");
    await until(
      "three pods of the old template",
      () => podsOf("web"),
      (pods) => pods.length === 3 && pods.every((pod) => pod.spec?.containers[0]?.env?.[0]?.value === "1"),
    );
    await kubectl("rollout", "resume", "deployment/web");
    await kubectl("rollout", "restart", "deployment/web");
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s");
    expect((await podsOf("web")).map((pod) => pod.spec?.containers[0]?.env?.[0]?.value)).toEqual([
      "3",
      "3",
      "3",
    ]);
    await kubectl("delete", "deployment/web");
  });

  it("run a daemon on each node, update it and go back", async () => {
    await apply(daemonSet("agent"));
    await kubectl("rollout", "status", "daemonset/agent", "--timeout=60s");
    expect(new Set((await podsOf("agent")).map((pod) => pod.spec?.nodeName))).toEqual(new Set(NODES));
    await kubectl("set", "env", "daemonset/agent", "V=2");
    await kubectl("rollout", "status", "daemonset/agent", "--timeout=60s");
    expect(await kubectl("rollout", "history", "daemonset/agent")).toMatch(/^1 .*\n2 /mv);
    await kubectl("rollout", "undo", "daemonset/agent");
    await kubectl("rollout", "status", "daemonset/agent", "--timeout=60s");
    expect((await podsOf("agent")).map((pod) => pod.spec?.containers[0]?.env?.[0]?.value)).toEqual([
      "1",
      "1",
    ]);
  });

  it("run Jobs to their end, well or badly, and remove them in time", async () => {
    const job = (name: string, script: string, spec: object) => ({
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name },
      spec: {
        ...spec,
        template: {
          spec: {
            restartPolicy: "Never",
            containers: [{ name: "c", image: "busybox", command: ["sh", "-c", script] }],
          },
        },
      },
    });
    await apply(
      job("all", 'echo "index $JOB_COMPLETION_INDEX"', {
        completions: 3,
        parallelism: 2,
        completionMode: "Indexed",
      }),
      job("bad", "exit 3", { backoffLimit: 0 }),
      job("brief", "true", { ttlSecondsAfterFinished: 0 }),
    );
    await kubectl("wait", "--for=condition=complete", "job/all", "--timeout=60s");
    expect(
      await kubectl("get", "job/all", "-o", "jsonpath={.status.completedIndexes} {.status.succeeded}"),
    ).toBe("0-2 3");
    expect((await kubectl("logs", "-l", "job-name=all", "--prefix=false")).split("\n").toSorted()).toEqual([
      "",
      "index 0",
      "index 1",
      "index 2",
    ]);
    await kubectl("wait", "--for=condition=failed", "job/bad", "--timeout=60s");
    expect(await kubectl("get", "job/bad", "-o", "jsonpath={.status.conditions[-1:].reason}")).toBe(
      "BackoffLimitExceeded",
    );
    await kubectl("wait", "--for=delete", "job/brief", "--timeout=60s");
    await kubectl("delete", "job/all", "job/bad");
    await until(
      "no pod of a Job is left",
      () => client.list(PODS, { namespace: "default", labelSelector: "job-name" }),
      ({ items }) => items.length === 0,
    );
  });

  it("leave a node that is drained as fast as their budget allows, and keep away while it is cordoned", async () => {
    const budget = (maxUnavailable: number) => ({
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: "guarded" },
      spec: { maxUnavailable, selector: { matchLabels: { app: "guarded" } } },
    });
    const [first, second] = NODES;
    await apply(deployment("guarded", 2), budget(0));
    await kubectl("rollout", "status", "deployment/guarded", "--timeout=60s");
    await until(
      "the budget is known",
      () =>
        kubectl("get", "pdb/guarded", "-o", "jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}"),
      (text) => text === "2 0",
    );
    expect(await refused("drain", first, "--timeout=2s")).toContain("cannot delete DaemonSet-managed Pods");
    const blocked = await refused(
      "drain",
      first,
      "--ignore-daemonsets",
      "--delete-emptydir-data",
      "--timeout=6s",
    );
    expect(blocked).toContain("Cannot evict pod as it would violate the pod's disruption budget.");
    expect(await kubectl("get", "node", first)).toContain("Ready,SchedulingDisabled");
    await apply(budget(1));
    await kubectl("drain", first, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s");
    await until(
      "all pods are on the other node",
      () => podsOf("guarded"),
      (pods) => pods.length === 2 && pods.every((pod) => pod.spec?.nodeName === second),
    );
    // A daemon stays where it is.
    expect(new Set((await podsOf("agent")).map((pod) => pod.spec?.nodeName))).toEqual(new Set(NODES));
    await kubectl("cordon", second);
    await kubectl("run", "late", "--image=fairlead.dev/echo", "--labels=app=late");
    const waiting = await until(
      "the scheduler says why the pod waits",
      () => kubectl("get", "events", "--field-selector=reason=FailedScheduling,involvedObject.name=late"),
      (text) => text.includes("FailedScheduling"),
    );
    expect(waiting).toContain("0/2 nodes are available: 2 node(s) were unschedulable. ");
    await kubectl("uncordon", first, second);
    await kubectl("wait", "--for=condition=Ready", "pod/late", "--timeout=60s");
  });

  it("are sent away by a taint that they do not tolerate", async () => {
    await kubectl("taint", "node", NODES[1], "maintenance=now:NoExecute");
    await until(
      "the other node has all pods but the daemon's",
      () => podsOf("guarded"),
      (pods) => pods.length === 2 && pods.every((pod) => pod.spec?.nodeName === NODES[0]),
    );
    await kubectl("taint", "node", NODES[1], "maintenance-");
    await kubectl("rollout", "status", "daemonset/agent", "--timeout=60s");
  });

  it("answer at a port of every node, from the machine", async () => {
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "guarded" },
      spec: {
        type: "NodePort",
        selector: { app: "guarded" },
        ports: [{ port: 80, targetPort: 8080, nodePort: 30_123 }],
      },
    };
    await apply(service);
    for (const node of NODES) {
      const address = await kubectl("get", "node", node, "-o", "jsonpath={.status.addresses[0].address}");
      const answer = await until(
        `the port of ${node} answers`,
        async () => (await fetch(`http://${address}:30123/`)).status,
        (status) => status === 200,
      );
      expect(found(answer)).toBe(200);
    }
  });

  it("have no metrics, and kubectl reports it", async () => {
    expect(await refused("top", "nodes")).toContain("Metrics API not available");
  });
});
