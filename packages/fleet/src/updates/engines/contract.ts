import { expect, it } from "vitest";
import type { UpgradeTarget } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { ClusterUpgrader, UpgradeOperation } from "./upgrader.ts";

/** A cluster with a control plane and a worker node in version 1.33.4, and the engine that upgrades it. */
export interface EngineHarness {
  /** How often the engine's objects were written. */
  readonly writes: () => number;
  /** A new one, as after a restart. */
  readonly upgrader: () => ClusterUpgrader;
  /** Lets the engine work until it has ended. */
  readonly work: (result: "succeed" | "fail") => Promise<void>;
  /** Removes what failed, as a user does before the next try. Absent: not needed. */
  readonly repair?: () => Promise<void>;
  /** What the failure says. Default: "the disk is full". */
  readonly failure?: string;
  /** A version as the engine has them. */
  readonly version: (text: string) => string;
}

const signal = new AbortController().signal;

/** What every engine does. */
export function engineContract(make: () => EngineHarness | Promise<EngineHarness>): void {
  const operation = (
    harness: EngineHarness,
    id: string,
    more: Partial<UpgradeTarget> = {},
  ): UpgradeOperation => ({
    id,
    target: { type: "Full", kubernetesVersion: harness.version("1.34.1"), ...more },
  });

  it("reports versions and nodes, and no operation before one is started", async () => {
    const harness = await make();
    const observed = await harness.upgrader().observe(operation(harness, "one"), signal);
    expect(observed.kubernetesVersion).toBe(harness.version("1.33.4"));
    expect(observed.nodes?.map((it) => it.kubernetesVersion)).toEqual(
      Array.from({ length: 2 }, () => harness.version("1.33.4")),
    );
    expect(observed).not.toHaveProperty("operation");
  });

  it("carries out an operation, which is Running until the cluster is at the target", async () => {
    const harness = await make();
    const one = operation(harness, "one");
    await harness.upgrader().start(one, signal);
    expect((await harness.upgrader().observe(one, signal)).operation).toMatchObject({
      id: "one",
      state: "Running",
    });
    await harness.work("succeed");
    const observed = await harness.upgrader().observe(one, signal);
    expect(observed.operation).toEqual({ id: "one", state: "Succeeded" });
    expect(observed.kubernetesVersion).toBe(harness.version("1.34.1"));
    expect(observed.nodes?.map((it) => it.kubernetesVersion)).toEqual(
      Array.from({ length: 2 }, () => harness.version("1.34.1")),
    );
  });

  it("started again, also after a restart, writes nothing", async () => {
    const harness = await make();
    const one = operation(harness, "one");
    await harness.upgrader().start(one, signal);
    const writes = harness.writes();
    await harness.upgrader().start(one, signal);
    expect(harness.writes()).toBe(writes);
  });

  it("reports the reason of a failure, and tries again under another id", async () => {
    const harness = await make();
    await harness.upgrader().start(operation(harness, "one"), signal);
    await harness.work("fail");
    const failed = await harness.upgrader().observe(operation(harness, "one"), signal);
    expect(failed.operation).toMatchObject({ id: "one", state: "Failed" });
    expect(failed.operation?.message).toContain(harness.failure ?? "the disk is full");
    const two = operation(harness, "two");
    expect(await harness.upgrader().observe(two, signal)).not.toHaveProperty("operation");
    await harness.repair?.();
    await harness.upgrader().start(two, signal);
    expect((await harness.upgrader().observe(two, signal)).operation).toMatchObject({ state: "Running" });
    await harness.work("succeed");
    expect((await harness.upgrader().observe(two, signal)).operation).toEqual({
      id: "two",
      state: "Succeeded",
    });
  });

  it("leaves nodes as they are in an upgrade of the control plane", async () => {
    const harness = await make();
    const one = operation(harness, "one", { type: "ControlPlaneOnly" });
    await harness.upgrader().start(one, signal);
    await harness.work("succeed");
    const observed = await harness.upgrader().observe(one, signal);
    expect(observed.operation).toEqual({ id: "one", state: "Succeeded" });
    expect(observed.nodes?.map((it) => it.kubernetesVersion)).toContain(harness.version("1.33.4"));
  });

  it("stops an operation, which has failed then, and another one is carried out as usual", async () => {
    const harness = await make();
    const one = operation(harness, "one");
    const upgrader = harness.upgrader();
    await upgrader.stop(one, signal);
    await upgrader.start(one, signal);
    await upgrader.stop({ ...one, stop: true }, signal);
    expect((await harness.upgrader().observe(one, signal)).operation).toEqual({
      id: "one",
      state: "Failed",
      message: "the upgrade was stopped",
    });
    const writes = harness.writes();
    await harness.upgrader().stop(one, signal);
    expect(harness.writes()).toBe(writes);
    const two = operation(harness, "two");
    await harness.upgrader().start(two, signal);
    expect((await harness.upgrader().observe(two, signal)).operation?.state).toBe("Running");
    await harness.upgrader().stop(one, signal);
    await harness.work("succeed");
    expect((await harness.upgrader().observe(two, signal)).operation?.state).toBe("Succeeded");
  });

  it("leads a cluster back, or says why it cannot", async () => {
    const harness = await make();
    await harness.upgrader().start(operation(harness, "one"), signal);
    await harness.work("succeed");
    const back = {
      ...operation(harness, "one-rollback", { kubernetesVersion: harness.version("1.33.4") }),
      rollback: true,
    };
    const problem = await harness.upgrader().rollbackProblem(signal);
    if (problem !== undefined) {
      await expect(harness.upgrader().start(back, signal)).rejects.toThrow(problem);
      return;
    }
    await harness.upgrader().start(back, signal);
    await harness.work("succeed");
    const observed = await harness.upgrader().observe(back, signal);
    expect(observed.operation).toEqual({ id: "one-rollback", state: "Succeeded" });
    expect(observed.kubernetesVersion).toBe("1.33.4");
  });
}
