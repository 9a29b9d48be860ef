import { describe, expect, it } from "vitest";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Job, CRON_JOBS, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { CAPI_CLUSTERS, CAPI_CLUSTERS_V1BETA1, ClusterApiUpgrader, DEFER_UPGRADE } from "./cluster-api.ts";
import {
  CLUSTER_NAME_LABEL,
  CONTROL_PLANE_LABEL,
  type Machine,
  MACHINES,
  MACHINES_V1BETA1,
} from "./cluster-api-machines.ts";
import { engineContract, type EngineHarness } from "./contract.ts";
import { JobUpgrader } from "./job.ts";
import { localUpgrader } from "./local.ts";
import { PLAN_NAMES, PLANS, PLANS_NAMESPACE, PlanUpgrader } from "./plans.ts";

const signal = new AbortController().signal;
const now = "2026-11-23T12:00:00Z";
const FAILURE = "the disk is full";

type FakeHarness = EngineHarness & { readonly client: FakeKubeClient };
type CapiHarness = FakeHarness & {
  readonly machine: (name: string, version: string, status: Machine["status"]) => void;
};

/** A cluster that a substitute for the engine changes. */
function cluster(version: string): Required<Pick<ClusterUpgradeStatus, "kubernetesVersion" | "nodes">> {
  const node = (name: string) => ({ name, kubernetesVersion: version, ready: true });
  return { kubernetesVersion: version, nodes: [node("server"), node("worker")] };
}

function jobHarness(annotations: Record<string, string> = {}): FakeHarness {
  const client = new FakeKubeClient();
  const state = cluster("1.33.4");
  const containers = [{ name: "upgrade", image: "example/upgrade" }];
  client.seed(CRON_JOBS, {
    metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: "upgrade", annotations },
    spec: {
      schedule: "0 0 1 1 *",
      suspend: true,
      jobTemplate: { spec: { template: { spec: { containers } } } },
    },
  });
  const env = (job: Job, name: string): string =>
    job.spec?.template.spec?.containers[0]?.env?.find((it) => it.name === name)?.value ?? "";
  return {
    client,
    writes: () => client.writes.length,
    upgrader: () => new JobUpgrader(client, "upgrade", () => Promise.resolve(structuredClone(state))),
    version: (it) => it,
    async work(result) {
      for (const job of client
        .objects(JOBS)
        .filter((it) => it.status === undefined && it.spec?.suspend !== true)) {
        const type = result === "succeed" ? "Complete" : "Failed";
        const conditions = [{ type, status: "True", message: FAILURE }];
        await client.mergePatch(JOBS, keyOf(job), { status: { conditions } }, { subresource: "status" });
        if (result === "fail") continue;
        state.kubernetesVersion = env(job, "FAIRLEAD_KUBERNETES_VERSION");
        if (env(job, "FAIRLEAD_UPGRADE_TYPE") !== "Full") continue;
        for (const it of state.nodes) it.kubernetesVersion = state.kubernetesVersion;
      }
    },
  };
}

/** Stands in for the system-upgrade-controller: the Plan of nodes waits for that of the control plane. */
function planHarness(): FakeHarness {
  const client = new FakeKubeClient();
  const state = cluster("1.33.4+k3s1");
  return {
    client,
    writes: () => client.writes.length,
    upgrader: () =>
      new PlanUpgrader(client, { asked: "", own: undefined }, () => Promise.resolve(structuredClone(state))),
    version: (it) => `${it}+k3s1`,
    async work(result) {
      for (const name of [PLAN_NAMES.controlPlane, PLAN_NAMES.nodes]) {
        const key = objectKey(PLANS_NAMESPACE, name);
        const plan = await client.find(PLANS, key);
        if (plan === undefined) continue;
        const end =
          result === "succeed"
            ? { status: "True", reason: "Complete", message: "" }
            : { status: "False", reason: "JobFailed", message: FAILURE };
        const conditions = [{ type: "Complete", lastTransitionTime: now, ...end }];
        await client.mergePatch(PLANS, key, { status: { conditions } }, { subresource: "status" });
        if (result === "fail") return;
        const version = plan.spec.version?.slice(1) ?? "";
        if (name === PLAN_NAMES.controlPlane) state.kubernetesVersion = version;
        const node = state.nodes[name === PLAN_NAMES.controlPlane ? 0 : 1];
        if (node !== undefined) node.kubernetesVersion = version;
      }
    },
  };
}

type CapiVersion = "v1beta1" | "v1beta2";

/** A Machine that its owner does not replace, as the versions of Cluster API report it. */
const UNHEALTHY: Readonly<Record<CapiVersion, Machine["status"] & object>> = {
  v1beta1: { phase: "Failed", failureMessage: FAILURE },
  v1beta2: {
    phase: "Provisioning",
    conditions: [
      condition("HealthCheckSucceeded", "NodeStartupTimeout", FAILURE),
      condition("OwnerRemediated", "CannotBeRemediated", "it already failed 3 times (MaxRetry)"),
    ],
  },
};

function condition(type: string, reason: string, message: string): Condition {
  return { type, status: "False", reason, message, lastTransitionTime: now };
}

/** Stands in for Cluster API: Machines are replaced by others of the topology's version. */
function capiHarness(served: CapiVersion = "v1beta2"): CapiHarness {
  const client = new FakeKubeClient();
  const [clusters, machines] =
    served === "v1beta2" ? [CAPI_CLUSTERS, MACHINES] : [CAPI_CLUSTERS_V1BETA1, MACHINES_V1BETA1];
  const key = objectKey("clusters", "a");
  const machine = (name: string, version: string, isControlPlane: boolean): Machine => ({
    metadata: {
      namespace: "clusters",
      name,
      labels: { [CLUSTER_NAME_LABEL]: "a", ...(isControlPlane ? { [CONTROL_PLANE_LABEL]: "" } : {}) },
    },
    spec: { clusterName: "a", version },
    status: { phase: "Running", nodeRef: { name }, nodeInfo: { kubeletVersion: version } },
  });
  const workers = { machineDeployments: [{ name: "md" }], machinePools: [{ name: "mp" }] };
  client.seed(clusters, {
    metadata: { namespace: "clusters", name: "a" },
    spec: { topology: { version: "v1.33.4", workers } },
  });
  client.seed(machines, machine("server", "v1.33.4", true), machine("worker", "v1.33.4", false));
  let generation = 1;
  let failed: string[] = [];
  return {
    client,
    machine: (name, version, status) =>
      client.seed(machines, { ...machine(name, version, false), status: { phase: "Running", ...status } }),
    writes: () => client.writes.length,
    upgrader: () => new ClusterApiUpgrader(client, "clusters/a"),
    async repair() {
      for (const name of failed) await client.delete(machines, objectKey("clusters", name));
      failed = [];
    },
    version: (it) => it,
    async work(result) {
      const topology = (await client.get(clusters, key)).spec?.topology;
      const version = topology?.version ?? "";
      const isDeferred = JSON.stringify(topology).includes(DEFER_UPGRADE);
      generation += 1;
      if (result === "fail") {
        failed.push(`server-${generation}`);
        client.seed(machines, {
          ...machine(`server-${generation}`, version, true),
          status: UNHEALTHY[served],
        });
        return;
      }
      const isReplaced = (it: Machine): boolean =>
        !isDeferred || it.metadata.labels?.[CONTROL_PLANE_LABEL] !== undefined;
      for (const it of client.objects(machines).filter(isReplaced)) await client.delete(machines, keyOf(it));
      client.seed(machines, machine(`server-${generation}-new`, version, true));
      if (!isDeferred) client.seed(machines, machine(`worker-${generation}-new`, version, false));
    },
  };
}

describe("a Job of the user's", () => {
  engineContract(() => jobHarness());

  describe("that can go back", () => {
    const make = (): FakeHarness => jobHarness({ "fairlead.dev/can-roll-back": "true" });
    engineContract(make);

    it("has it in its environment", async () => {
      const { client, upgrader } = make();
      const target = { type: "Full", kubernetesVersion: "1.33.4" } as const;
      await upgrader().start({ id: "one", target, rollback: true }, signal);
      const [job] = client.objects(JOBS);
      expect(job?.spec?.template.spec?.containers[0]?.env).toContainEqual({
        name: "FAIRLEAD_ROLLBACK",
        value: "true",
      });
    });
  });

  it("that is stopped has ended when its pods have", async () => {
    const { client, upgrader } = jobHarness();
    const one = { id: "one", target: { type: "Full", kubernetesVersion: "1.34.1" } } as const;
    await upgrader().start(one, signal);
    const [job] = client.objects(JOBS);
    if (job === undefined) throw new Error("no Job was made");
    const active = (count: number) =>
      client.mergePatch(JOBS, keyOf(job), { status: { active: count } }, { subresource: "status" });
    await active(1);
    await upgrader().stop(one, signal);
    expect((await upgrader().observe(one, signal)).operation?.state).toBe("Running");
    await active(0);
    expect((await upgrader().observe(one, signal)).operation?.state).toBe("Failed");
  });

  it("whose template does not exist is refused with its name", async () => {
    const upgrader = new JobUpgrader(new FakeKubeClient(), "mine", () => Promise.resolve({}));
    await expect(upgrader.start({ id: "one", target: { type: "Full" } }, signal)).rejects.toThrow(
      "CronJob fleet-system/mine",
    );
  });
});

describe("the system-upgrade-controller", () => {
  engineContract(planHarness);

  it("gets a Plan of the control plane, and one of the other nodes that waits for it", async () => {
    const { client, upgrader } = planHarness();
    const target = { type: "Full", kubernetesVersion: "1.34.1+k3s1" } as const;
    await upgrader().start({ id: "one", target }, signal);
    expect(client.objects(PLANS).map(({ metadata, spec }) => [metadata.name, spec])).toEqual([
      [
        "fairlead-control-plane",
        {
          version: "v1.34.1+k3s1",
          concurrency: 1,
          cordon: true,
          serviceAccountName: "system-upgrade",
          nodeSelector: {
            matchExpressions: [
              { key: "node-role.kubernetes.io/control-plane", operator: "In", values: ["true"] },
            ],
          },
          upgrade: { image: "rancher/k3s-upgrade" },
        },
      ],
      [
        "fairlead-nodes",
        {
          version: "v1.34.1+k3s1",
          concurrency: 1,
          cordon: true,
          serviceAccountName: "system-upgrade",
          nodeSelector: {
            matchExpressions: [{ key: "node-role.kubernetes.io/control-plane", operator: "DoesNotExist" }],
          },
          prepare: { image: "rancher/k3s-upgrade", args: ["prepare", "fairlead-control-plane"] },
          upgrade: { image: "rancher/k3s-upgrade" },
        },
      ],
    ]);
  });

  it("says why it does nothing about a Plan", async () => {
    const { client, upgrader } = planHarness();
    const one = { id: "one", target: { type: "Full", kubernetesVersion: "1.34.1+k3s1" } } as const;
    await upgrader().start(one, signal);
    const key = objectKey(PLANS_NAMESPACE, PLAN_NAMES.controlPlane);
    const invalid = {
      type: "Validated",
      status: "False",
      reason: "Error",
      message: "spec.window is invalid",
    };
    const status = { conditions: [{ ...invalid, lastTransitionTime: now }] };
    await client.mergePatch(PLANS, key, { status }, { subresource: "status" });
    expect((await upgrader().observe(one, signal)).operation).toEqual({
      id: "one",
      state: "Running",
      message: "Plan fairlead-control-plane: spec.window is invalid",
    });
  });

  it.each([
    [{ type: "NodeImageOnly" as const, nodeImages: ["u-2"] }, "does not change node images"],
    [
      { type: "Full" as const, kubernetesVersion: "1.34.1" },
      "needs a version with its build, such as 1.34.1+k3s1",
    ],
  ])("refuses %j", async (target, message) => {
    await expect(planHarness().upgrader().start({ id: "one", target }, signal)).rejects.toThrow(message);
  });
});

describe.each(["v1beta1", "v1beta2"] as const)("Cluster API that serves %s alone", (served) => {
  engineContract(() => capiHarness(served));
});

describe("Cluster API", () => {
  const one = { id: "one", target: { type: "Full", kubernetesVersion: "1.34.1" } } as const;
  const stateWith = async (version: string, status: Machine["status"]) => {
    const { upgrader, machine } = capiHarness();
    await upgrader().start(one, signal);
    machine("other", version, status);
    return (await upgrader().observe(one, signal)).operation;
  };
  const cannot = UNHEALTHY.v1beta2.conditions ?? [];

  it.each<[string, string, Machine["status"], string]>([
    [
      "the failure that a provider of the older contract reports",
      "v1.33.4",
      { deprecated: { v1beta1: { failureMessage: FAILURE } } },
      FAILURE,
    ],
    [
      "what v1beta1 has of the conditions of v1beta2",
      "v1.34.1",
      { v1beta2: { conditions: cannot } },
      `${FAILURE}; it already failed 3 times (MaxRetry)`,
    ],
    ["a phase", "v1.33.4", { phase: "Failed" }, "its phase is Failed"],
  ])("has failed by %s", async (_, version, status, message) => {
    expect(await stateWith(version, status)).toEqual({
      id: "one",
      state: "Failed",
      message: `Machine other: ${message}`,
    });
  });

  it.each<[string, string, Machine["status"]]>([
    [
      "is being replaced",
      "v1.34.1",
      {
        conditions: [
          condition("HealthCheckSucceeded", "UnhealthyNode", FAILURE),
          condition("OwnerRemediated", "RemediationDeferred", "another one is being replaced"),
        ],
      },
    ],
    ["has the version before, and is replaced by the upgrade", "v1.33.4", { conditions: cannot }],
  ])("has not failed by an unhealthy Machine that %s", async (_, version, status) => {
    expect((await stateWith(version, status))?.state).toBe("Running");
  });

  it("starts although a controller writes the Cluster in between, four times", async () => {
    const { client, upgrader } = capiHarness();
    for (let at = 0; at < 4; at += 1) client.failNext(new FleetError("API_CONFLICT", "modified"));
    await upgrader().start(one, signal);
    expect((await upgrader().observe(one, signal)).operation?.state).toBe("Running");
  });

  it("leaves MachinePools as they are, too, in an upgrade of the control plane", async () => {
    const { client, upgrader } = capiHarness();
    await upgrader().start({ id: "one", target: { ...one.target, type: "ControlPlaneOnly" } }, signal);
    expect(client.objects(CAPI_CLUSTERS)[0]?.spec?.topology?.workers).toEqual({
      machineDeployments: [{ name: "md", metadata: { annotations: { [DEFER_UPGRADE]: "" } } }],
      machinePools: [{ name: "mp", metadata: { annotations: { [DEFER_UPGRADE]: "" } } }],
    });
  });

  it("upgrades workers again that an upgrade of the control plane left behind", async () => {
    const harness = capiHarness();
    const target = (type: "Full" | "ControlPlaneOnly") => ({ type, kubernetesVersion: "1.34.1" });
    await harness.upgrader().start({ id: "one", target: target("ControlPlaneOnly") }, signal);
    await harness.work("succeed");
    const two = { id: "two", target: target("Full") };
    await harness.upgrader().start(two, signal);
    expect((await harness.upgrader().observe(two, signal)).operation?.state).toBe("Running");
    await harness.work("succeed");
    expect((await harness.upgrader().observe(two, signal)).operation?.state).toBe("Succeeded");
  });

  it("refuses a cluster without a topology, and node images", async () => {
    const { client, upgrader } = capiHarness();
    const images = { id: "one", target: { type: "NodeImageOnly" as const } };
    await expect(upgrader().start(images, signal)).rejects.toThrow("no version of node images");
    client.seed(CAPI_CLUSTERS, { metadata: { namespace: "clusters", name: "b" }, spec: {} });
    const other = new ClusterApiUpgrader(client, "clusters/b");
    await expect(other.start(images, signal)).rejects.toThrow("has no spec.topology");
  });
});

describe("the image of a Plan", () => {
  async function imagesOf(engine: string, own?: string, version = "1.34.1+k3s1"): Promise<unknown[]> {
    const client = new FakeKubeClient();
    const upgrader = localUpgrader(engine, client, () => Promise.resolve({}), own);
    const target = { type: "ControlPlaneOnly" as const, kubernetesVersion: version };
    await upgrader.start({ id: "one", target }, signal);
    return client.objects(PLANS).map((it) => it.spec.upgrade.image);
  }
  it("is that of the distribution, which the target version shows", async () => {
    expect(await imagesOf("SystemUpgradeController")).toEqual(["rancher/k3s-upgrade"]);
    expect(await imagesOf("SystemUpgradeController", undefined, "1.34.1+rke2r1")).toEqual([
      "rancher/rke2-upgrade",
    ]);
  });
  it("is that of the member, where it has one", async () => {
    expect(await imagesOf("SystemUpgradeController", "mirror.example/k3s")).toEqual(["mirror.example/k3s"]);
    expect(await imagesOf("SystemUpgradeController:mirror.example/k3s", "mirror.example/k3s")).toHaveLength(
      1,
    );
  });
  it.each([undefined, "mirror.example/k3s"])(
    "is not chosen by the hub, where the member has %s",
    async (own) => {
      await expect(imagesOf("SystemUpgradeController:evil.example/root", own)).rejects.toMatchObject({
        code: "PRECONDITION_FAILED",
        message: expect.stringContaining(
          'asks for image "evil.example/root", and this member upgrades with',
        ) as unknown,
      });
    },
  );
});

it("an engine that does not exist is refused with those that do", () => {
  expect(() => localUpgrader("Hammer", new FakeKubeClient(), () => Promise.resolve({}))).toThrow(
    '"Hammer" is not an engine; use Job:NAME',
  );
});
