/** A cluster of a lab that is upgraded: control plane and nodes, while another cluster uses its service. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_UPGRADES,
  GATES,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  type UpdateStage,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import type { UpgradeOperation } from "@fairlead/fleet/updates/engines/upgrader.ts";
import { found, parseTries, startLab, type TestLab } from "../support/lab-fixture.ts";
import {
  echoDeployment,
  flowScript,
  graceful,
  mcsExport,
  namespace,
  service,
  nodePod,
  shellPod,
} from "../support/lab-manifests.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { die, revive } from "./fault-tools.ts";

const ONE = "member-1";
const TWO = "member-2";
const UPGRADER = "machine/lab-upgrader";
const HUB = "hub/hub";
const HELLO = { namespace: "work", name: "hello" };
const CLIENT = { namespace: "work", name: "client" };
const URL = "http://hello.work.svc.clusterset.local/";
const budget = (maxUnavailable: number) => ({
  apiVersion: "policy/v1",
  kind: "PodDisruptionBudget",
  metadata: HELLO,
  spec: { maxUnavailable, selector: { matchLabels: { app: "hello" } } },
});

const CATALOG = {
  apiVersion: "fairlead.dev/v1alpha1",
  kind: "ReleaseCatalog",
  metadata: { name: "lab" },
  spec: {
    kubernetesVersions: [{ version: "1.35.0" }, { version: "1.36.0" }],
    nodeImages: [{ version: "lab-1.35.0" }, { version: "lab-1.36.0" }],
  },
};

describeOnKernel("a cluster of a lab", () => {
  let lab: TestLab;
  beforeAll(async () => {
    lab = await startLab({
      name: "eupgrade",
      nodes: 2,
      flags: ["--kubernetes-version", "1.35", "--upgrades"],
    });
    const objects = [graceful(echoDeployment(HELLO, 3)), service(HELLO), mcsExport(HELLO), budget(1)];
    await lab.apply(ONE, namespace("work"), ...objects);
    await lab.apply(TWO, namespace("work"), shellPod({ namespace: "work", name: "probe" }));
    await until(
      "the service answers in the other cluster",
      () => lab.ask(TWO, "work/probe", { url: URL, count: 3 }),
      (it) => it.every((answer) => answer?.cluster === ONE),
    );
    await lab.apply(TWO, nodePod(CLIENT, flowScript(URL, "kernel")));
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const versions = async (cluster = ONE): Promise<readonly string[]> =>
    (await (await lab.client(cluster)).list(NODES)).items.map(
      (it) => `${it.metadata.name} ${it.status?.nodeInfo?.["kubeletVersion"]}`,
    );
  /** To 1.36, as update runs do. */
  const startRun = async (name: string, stages: readonly UpdateStage[]): Promise<ObjectKey> => {
    const hub = await lab.client("hub");
    for (const [member, group] of Object.entries({ [ONE]: "canary", [TWO]: "prod" }))
      await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, member), {
        metadata: {
          labels: { [UPDATE_GROUP_LABEL]: group },
          annotations: { [UPGRADER_ANNOTATION]: "External" },
        },
      });
    await lab.apply("hub", CATALOG);
    await hub.create(UPDATE_RUNS, {
      metadata: { name },
      spec: {
        state: "Run",
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.36.0" } },
        strategy: { stages: [...stages] },
      },
    });
    return objectKey(undefined, name);
  };
  const upgrade = (...args: readonly string[]) =>
    lab.lab("upgrade", ["--kubernetes-version", ...args], { allowFailure: true, timeoutMs: 110_000 });

  it("refuses nodes that would be newer than their API server", async () => {
    const { exitCode, stderr } = await upgrade("1.36", "--nodes-only", ONE);
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringContaining(
        "cannot upgrade the nodes of member-1 to 1.36: its API server has 1.35, and nodes may not be newer; upgrade it first",
      ),
    ]);
  });

  it("is led back from the middle of an upgrade that a health check stops", async () => {
    // No node can be drained: the upgrade would last for ten minutes.
    await lab.apply(ONE, budget(0));
    const rules = [
      { name: "has no more nodes than before", expression: "object.now.nodes <= object.before.nodes" },
    ];
    const health = {
      rules,
      toleratedSeconds: 1,
      flows: { probers: 0 },
      onFailure: "Rollback" as const,
    };
    const key = await startRun("stopped", [{ name: "first", groups: [{ name: "canary" }], health }]);
    const hub = await lab.client("hub");
    const over = await until(
      "the run has ended",
      () => hub.get(UPDATE_RUNS, key),
      ({ status }) => status?.outcome !== undefined,
      { timeoutMs: 100_000 },
    );
    expect([over.status?.counts, over.status?.rolledBack]).toEqual([{ Failed: 1 }, 1]);
    expect(await versions()).toEqual([
      "member-1-node-1 v1.35.0+fairlead",
      "member-1-node-2 v1.35.0+fairlead",
    ]);
    const { items } = await (await lab.client(ONE)).list(NODES);
    expect(items.filter((it) => it.spec?.unschedulable === true)).toEqual([]);
    await hub.delete(UPDATE_RUNS, key);
    await lab.apply(ONE, budget(1));
  });

  const cordoned = async (): Promise<readonly string[]> =>
    (await (await lab.client(ONE)).list(NODES)).items
      .filter((it) => it.spec?.unschedulable === true)
      .map((it) => it.metadata.name);

  it("has no node cordoned when the upgrader died in a drain, and the upgrade is stopped or led back after that", async () => {
    await lab.apply(ONE, budget(0));
    // The hub would stop operations that no run carries out.
    await die(lab, HUB);
    const hub = await lab.client("hub");
    const [key, user] = [objectKey(mailboxOf(ONE), ONE), objectKey(undefined, `${ONE}-node-2`)];
    await (await lab.client(ONE)).mergePatch(NODES, user, { spec: { unschedulable: true } });
    const operation = (id: string, version: string, more: Partial<UpgradeOperation> = {}) => {
      const target = { type: "Full", kubernetesVersion: version };
      const next = { id, target, stop: null, rollback: null, ...more };
      return hub.mergePatch(CLUSTER_UPGRADES, key, { spec: { operation: next } });
    };
    const ended = (id: string) =>
      eventuallyOne(
        hub,
        CLUSTER_UPGRADES,
        key,
        ({ status }) => status?.operation?.id === id && status.operation.state !== "Running",
      );
    const dieInDrain = async (id: string): Promise<void> => {
      await operation(id, "1.36.0");
      await until("a node is drained", cordoned, (it) => it.includes("member-1-node-1"));
      await die(lab, UPGRADER);
    };
    await dieInDrain("one");
    // As if it had died between the end and the start of the API server.
    await die(lab, `${ONE}/apiserver`);
    await operation("one", "1.36.0", { stop: true });
    await revive(lab, UPGRADER);
    expect((await ended("one")).status?.operation?.state).toBe("Failed");
    expect(await cordoned()).toEqual(["member-1-node-2"]);
    await dieInDrain("two");
    await operation("two-rollback", "1.35.0", { rollback: true });
    await revive(lab, UPGRADER);
    expect((await ended("two-rollback")).status?.operation).toMatchObject({ state: "Succeeded" });
    expect(await cordoned()).toEqual(["member-1-node-2"]);
    await (await lab.client(ONE)).mergePatch(NODES, user, { spec: { unschedulable: null } });
    await revive(lab, HUB);
    await lab.apply(ONE, budget(1));
  });

  it("is upgraded with no request lost: its API server, and one new node for each old one, as budgets allow", async () => {
    const { stdout, exitCode } = await upgrade("1.36", ONE);
    expect([exitCode, stdout.split("\n").slice(0, -2)]).toEqual([
      0,
      [
        "  API server of member-1: 1.35 to 1.36",
        "  member-1-node-3 with 1.36",
        "  member-1-node-1 is drained",
        "  member-1-node-1 is removed",
        "  member-1-node-1 with 1.36",
        "  member-1-node-2 is drained",
        "  member-1-node-2 is removed",
      ],
    ]);
    expect(await versions()).toEqual([
      "member-1-node-1 v1.36.0+fairlead",
      "member-1-node-3 v1.36.0+fairlead",
    ]);
    const tries = parseTries(await lab.logOf(TWO, CLIENT));
    expect(tries.length).toBeGreaterThan(20);
    expect(tries.filter((it) => it.answer === undefined)).toEqual([]);
    // Again, there is nothing to do.
    expect((await upgrade("1.36", ONE)).stdout).toMatch(/^member-1 has Kubernetes 1\.36/);
  });

  it("goes back if its nodes do, too, as long as nothing needs the later release", async () => {
    expect((await upgrade("1.35", "--control-plane-only", ONE)).stderr).toContain(
      "member-1-node-3 has 1.36, and nodes may not be newer than their API server",
    );
    const made = { apiVersion: "storage.k8s.io/v1", kind: "CSIDriver", metadata: { name: "later" } };
    await lab.apply(ONE, { ...made, spec: { preventPodSchedulingIfMissing: true } });
    expect((await upgrade("1.35", "--nodes-only", ONE)).exitCode).toBe(0);
    const refused = await upgrade("1.35", ONE);
    expect(refused.stderr).toContain("cannot upgrade the API server of member-1 to 1.35; 1.36 serves again");
    expect(refused.stderr).toContain("CSIDriver later has spec.preventPodSchedulingIfMissing");
    expect(await versions()).toEqual([
      "member-1-node-2 v1.35.0+fairlead",
      "member-1-node-3 v1.35.0+fairlead",
    ]);
  });

  it("is upgraded by an update run, before the cluster of the next stage, which waits for an approval", async () => {
    const hub = await lab.client("hub");
    const key = await startRun("to-1-36", [
      { name: "first", groups: [{ name: "canary" }] },
      {
        name: "second",
        groups: [{ name: "prod" }],
        beforeGates: [{ displayName: "look at the first", type: "Approval" }],
      },
    ]);
    await eventuallyOne(hub, UPDATE_RUNS, key, ({ status }) => status?.status?.state === "Pending");
    expect((await versions()).map((it) => it.split(" ")[1])).toEqual([
      "v1.36.0+fairlead",
      "v1.36.0+fairlead",
    ]);
    expect((await versions(TWO)).map((it) => it.split(" ")[1])).toEqual([
      "v1.35.0+fairlead",
      "v1.35.0+fairlead",
    ]);
    const [gate] = await eventually(hub, GATES, (all) => all.length > 0);
    await hub.mergePatch(GATES, keyOf(found(gate)), { spec: { state: "Completed" } });
    const done = await eventuallyOne(hub, UPDATE_RUNS, key, ({ status }) => status?.outcome !== undefined);
    expect([done.status?.outcome, done.status?.counts]).toEqual(["Succeeded", { Completed: 2 }]);
    expect((await versions(TWO)).map((it) => it.split(" ")[1])).toEqual([
      "v1.36.0+fairlead",
      "v1.36.0+fairlead",
    ]);
  });
});
