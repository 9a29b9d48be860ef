import { describe, expect, it } from "vitest";
import type { ClusterUpgradeStatus, HealthCheck, Measurements } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { findFault } from "./judge.ts";
import { UpdateWorld } from "./world.fake.ts";

const GOOD = { nodes: 3, readyNodes: 3, servicesWithoutEndpoints: 1 };

/** One member after another, both judged. */
function world(health: HealthCheck = {}): UpdateWorld {
  const it = new UpdateWorld();
  it.add("a");
  it.add("b");
  for (const name of ["a", "b"]) measure(it, name, GOOD);
  it.request({ strategy: { stages: [{ name: "s", memberSelector: { byLabel: "" }, health }] } });
  it.start();
  return it;
}

function measure(it: UpdateWorld, name: string, measurements: Measurements | undefined): void {
  const { measurements: _before, ...cluster } = it.clusters.get(name) as Record<string, unknown>;
  it.clusters.set(name, { ...cluster, ...(measurements === undefined ? {} : { measurements }) });
  if (it.run.status !== undefined) it.settle();
}

describe("a member that is judged", () => {
  it("is Completed after it was watched, and the next one begins only then", () => {
    const it = world({ watchSeconds: 300 });
    it.finish("a");
    expect(it.states).toBe("a:Running b:NotStarted");
    expect(it.member("a").message).toBe("upgraded; watched until 2026-11-23T12:05:00Z");
    it.later(299_000);
    expect(it.states).toBe("a:Running b:NotStarted");
    it.later(1000);
    expect(it.states).toBe("a:Completed b:Running");
  });

  it("may lose nodes while they are replaced, but not after the upgrade", () => {
    const it = world({ toleratedSeconds: 60 });
    measure(it, "a", { ...GOOD, readyNodes: 1 });
    it.later(3_600_000);
    expect(it.states).toBe("a:Running b:NotStarted");
    it.finish("a");
    expect(it.member("a").message).toBe("not healthy: nodes are ready");
    it.later(60_000);
    expect(it.member("a").status.error).toEqual({ code: "Unhealthy", message: "nodes are ready" });
    expect(it.state).toBe("Failed");
  });

  it.each([
    ["loses all endpoints of a service", { ...GOOD, servicesWithoutEndpoints: 2 }],
    ["reports nothing any more", undefined],
  ])(
    "fails during its upgrade when it %s for longer than is tolerated, and the run stops",
    (_what, measurements) => {
      const it = world({ toleratedSeconds: 60 });
      measure(it, "a", measurements);
      it.later(59_000);
      expect(it.states).toBe("a:Running b:NotStarted");
      it.later(1000);
      expect([it.state, it.states]).toEqual(["Failed", "a:Failed b:NotStarted"]);
    },
  );

  it("does not fail for a fault that ends in time, and each fault counts by itself", () => {
    const it = world({ toleratedSeconds: 60 });
    const bad = { ...GOOD, servicesWithoutEndpoints: 9 };
    for (let times = 0; times < 3; times += 1) {
      measure(it, "a", bad);
      it.later(50_000);
      measure(it, "a", GOOD);
    }
    expect(it.member("a")).not.toHaveProperty("unhealthySince");
    expect(it.states).toBe("a:Running b:NotStarted");
  });

  it("is not Completed at the end of the watch while it is not healthy", () => {
    const it = world({ watchSeconds: 60, toleratedSeconds: 120 });
    it.finish("a");
    it.later(50_000);
    measure(it, "a", { ...GOOD, servicesWithoutEndpoints: 2 });
    it.later(30_000);
    expect(it.states).toBe("a:Running b:NotStarted");
    measure(it, "a", GOOD);
    expect(it.states).toBe("a:Completed b:Running");
  });

  it("is compared with its state at the beginning of the next attempt", () => {
    const it = world({ toleratedSeconds: 0 });
    const worse = { ...GOOD, servicesWithoutEndpoints: 2 };
    measure(it, "a", worse);
    expect(it.state).toBe("Failed");
    // The engine has to end first.
    const cluster = it.clusters.get("a") as ClusterUpgradeStatus;
    it.clusters.set("a", { ...cluster, operation: { id: "uid-1", state: "Failed" } });
    it.request({ attempt: 2 });
    it.settle();
    expect(it.member("a").before).toEqual(worse);
    expect(it.states).toBe("a:Running b:NotStarted");
  });
});

describe("rules of a health check", () => {
  const facts = { phase: "after", now: { errors: 3 }, before: { errors: 1 } } as const;
  const rules = (expression: string) => [{ name: "errors stay low", expression }];
  /** Stands in for CEL. */
  const compile = (expression: string) => (object: object) => {
    if (expression === "broken") throw new Error("no such field");
    const { now } = object as typeof facts;
    return now.errors < Number(expression);
  };
  it.each([
    ["9", undefined],
    ["2", "errors stay low"],
    ["broken", "errors stay low: no such field"],
  ])("%s: %s", (expression, fault) => {
    expect(findFault(rules(expression), facts, compile)).toBe(fault);
  });
  it("that cannot be evaluated do not hold", () => {
    expect(findFault(rules("9"), facts, undefined)).toBe(
      "errors stay low: the hub cannot evaluate expressions",
    );
  });
});

describe("a member whose services others probe", () => {
  /** Members a and b, one after another, probed by three others and by each other. */
  function probed(health: HealthCheck = {}): { fleet: UpdateWorld; failing: Map<string, number> } {
    const fleet = new UpdateWorld();
    for (const name of ["a", "b"]) fleet.add(name, { group: "g" }, { measurements: GOOD });
    for (const name of ["p1", "p2", "p3"]) fleet.add(name);
    const failing = new Map<string, number>();
    fleet.report = (prober, { cluster, since }) => {
      const failed = failing.get(prober) ?? 0;
      return { cluster, since, targets: 2, tried: 200, failed, message: "work/hello 10.1.0.7:80: HTTP 500" };
    };
    const strategy = { stages: [{ name: "s", groups: [{ name: "g" }], health }] };
    fleet.request({ strategy });
    fleet.start();
    return { fleet, failing };
  }

  it("is probed for half a minute before, and the next one during its upgrade", () => {
    const { fleet } = probed({ watchSeconds: 60 });
    expect(fleet.states).toBe("a:NotStarted b:NotStarted");
    expect(fleet.member("a").message).toBe("its services are probed before its upgrade");
    fleet.later(29_000);
    expect(fleet.states).toBe("a:NotStarted b:NotStarted");
    fleet.later(1000);
    expect(fleet.states).toBe("a:Running b:NotStarted");
    expect(fleet.member("a").before).toEqual({
      ...GOOD,
      probers: 4,
      flows: 200,
      failedFlowsPerMille: 0,
      failedServices: 0,
    });
    expect([...fleet.plan.keys()].toSorted()).toEqual(["b", "p1", "p2", "p3"]);
    fleet.finish("a");
    fleet.later(60_000);
    expect(fleet.states).toBe("a:Completed b:Running");
  });

  it("fails when flows to it do for most of them, and says an example", () => {
    const { fleet, failing } = probed({ toleratedSeconds: 60 });
    fleet.later(30_000);
    // b probes as well.
    for (const name of ["b", "p1", "p2"]) failing.set(name, 12);
    fleet.later(0);
    fleet.later(60_000);
    expect(fleet.member("a").status.error?.message).toBe(
      "flows to its services succeed: for the median of 4 members 60 of 1000 probes failed, such as work/hello 10.1.0.7:80: HTTP 500",
    );
    expect(fleet.state).toBe("Failed");
    fleet.later(0);
    expect(fleet.plan.size).toBe(0);
  });

  it("does not fail because one or two of four say so, nor for what failed before", () => {
    const { fleet, failing } = probed({ toleratedSeconds: 0 });
    for (const name of ["b", "p1", "p2", "p3"]) failing.set(name, 40);
    fleet.later(30_000);
    expect(fleet.states).toBe("a:Running b:NotStarted");
    for (const name of ["p1", "p2"]) failing.set(name, 200);
    fleet.later(1000);
    fleet.later(60_000);
    expect(fleet.states).toBe("a:Running b:NotStarted");
  });

  it("is not probed while its run is stopped", () => {
    const { fleet } = probed();
    expect(fleet.plan.size).toBe(4);
    fleet.request({ state: "Stop" });
    fleet.settle();
    expect([fleet.state, fleet.plan.size]).toEqual(["Stopped", 0]);
    expect(fleet.member("a")).not.toHaveProperty("message");
  });
});

describe("a member that fails its health check", () => {
  it("has its engine stopped, at once and once", () => {
    const it = world({ toleratedSeconds: 0 });
    measure(it, "a", { ...GOOD, servicesWithoutEndpoints: 2 });
    expect([it.states, it.reported]).toEqual(["a:Failed b:NotStarted", ["start a uid-1", "stop a uid-1"]]);
    it.settle();
    expect(it.reported).toHaveLength(2);
  });

  it("and whose engine has ended is left as it is", () => {
    const it = world({ toleratedSeconds: 0 });
    it.finish("a");
    measure(it, "a", { ...GOOD, servicesWithoutEndpoints: 2 });
    expect([it.state, it.reported]).toEqual(["Failed", ["start a uid-1"]]);
  });

  const BAD = { ...GOOD, servicesWithoutEndpoints: 2 };

  it("is led back if the check says so, while no other begins, and Failed then", () => {
    const it = world({ toleratedSeconds: 0, onFailure: "Rollback" });
    it.finish("a");
    measure(it, "a", BAD);
    expect([it.state, it.states, it.reported.at(-1)]).toEqual([
      "Stopping",
      "a:Running b:NotStarted",
      "start a uid-1-rollback",
    ]);
    expect(it.member("a").message).toBe("is rolled back: no service loses all its endpoints");
    it.finish("a");
    expect(it.clusters.get("a")).toMatchObject({ kubernetesVersion: "1.33.4" });
    expect([it.state, it.states, it.status.rolledBack]).toEqual(["Failed", "a:Failed b:NotStarted", 1]);
    expect(it.member("a")).toMatchObject({
      status: { error: { code: "Unhealthy", message: "no service loses all its endpoints" } },
      rollback: { state: "Succeeded" },
    });
  });

  it("is led back when it reports so, after the program that did it", () => {
    const it = world({ toleratedSeconds: 0, onFailure: "Rollback" });
    const [member, upgraded] = [it.members.get("a"), it.clusters.get("a")];
    if (member !== undefined) it.members.set("a", { ...member, upgrader: "External" });
    it.finish("a");
    measure(it, "a", BAD);
    const operation = { id: "uid-1-rollback", state: "Succeeded" as const };
    it.clusters.set("a", { ...upgraded, kubernetesVersion: "1.34.1", operation });
    it.settle();
    expect(it.states).toBe("a:Running b:NotStarted");
    it.clusters.set("a", { ...upgraded, kubernetesVersion: "1.33.4", operation });
    it.settle();
    expect([it.state, it.status.rolledBack]).toEqual(["Failed", 1]);
  });

  it.each([
    ["1.34.1", "1.33.4"],
    ["1.34.1+k3s1", "1.33.4+k3s2"],
  ])("is led back to its version, with its build if %s has one", (kubernetesVersion, previous) => {
    const it = new UpdateWorld();
    it.add("a", {}, { kubernetesVersion: "1.33.4+k3s2", measurements: GOOD });
    const stages = [
      { name: "s", memberSelector: { byLabel: "" }, health: { onFailure: "Rollback" as const } },
    ];
    const upgrade = { type: "Full" as const, kubernetesVersion };
    it.request({ strategy: { stages }, managedClusterUpdate: { upgrade } });
    it.start();
    expect(it.member("a").previous).toEqual({ type: "Full", kubernetesVersion: previous });
  });

  it("is led back after its engine was stopped", () => {
    const it = world({ toleratedSeconds: 0, onFailure: "Rollback" });
    measure(it, "a", BAD);
    expect(it.reported).toEqual(["start a uid-1", "stop a uid-1", "start a uid-1-rollback"]);
  });

  it("is led back if its engine fails as well, and tried again from there", () => {
    const it = world({ onFailure: "Rollback" });
    it.finish("a", "Failed");
    it.finish("a");
    expect(it.member("a")).toMatchObject({
      status: { state: "Failed", error: { code: "UpgradeFailed" } },
      rollback: { state: "Succeeded" },
    });
    it.request({ attempt: 2 });
    it.settle();
    expect(it.member("a")).not.toHaveProperty("rollback");
    expect([it.states, it.status.rolledBack, it.reported.at(-1)]).toEqual([
      "a:Running b:NotStarted",
      undefined,
      "start a uid-2",
    ]);
  });

  it.each<[string, (it: UpdateWorld) => void, string]>([
    ["the engine fails", (it) => it.finish("a", "Failed"), "node does not boot"],
    ["it takes an hour", (it) => it.later(3_600_000), "it did not end within an hour"],
  ])("stays as it is if %s, and says so", (_what, happen, message) => {
    const it = world({ toleratedSeconds: 0, onFailure: "Rollback" });
    measure(it, "a", BAD);
    happen(it);
    expect(it.member("a").rollback).toMatchObject({ state: "Failed", message });
    expect([it.state, it.status.rolledBack]).toEqual(["Failed", undefined]);
  });

  it.each(["SystemUpgradeController", "ClusterAPI:capi/a"])(
    "by %s is not led back, and says why",
    (upgrader) => {
      const it = new UpdateWorld();
      it.add("a", { upgrader }, { measurements: GOOD });
      it.request({
        strategy: {
          stages: [
            {
              name: "s",
              memberSelector: { byLabel: "" },
              health: { toleratedSeconds: 0, onFailure: "Rollback" },
            },
          ],
        },
      });
      it.start();
      it.finish("a");
      measure(it, "a", BAD);
      expect(it.state).toBe("Failed");
      expect(it.member("a").rollback?.message).toMatch(/does not go back to older versions$/);
    },
  );
});

describe("a health check without rules", () => {
  const facts = (now: Measurements, before: Measurements, phase: "during" | "after" = "after") =>
    findFault(undefined, { phase, now, before }, undefined);
  const NONE = { failedLookupsPerMille: 0, failedFlowsPerMille: 0, failedServices: 0 };
  it.each<[string, Measurements, string | undefined]>([
    ["a service of many that does not answer", { failedServices: 1 }, "flows to its services succeed"],
    ["lookups that fail", { failedLookupsPerMille: 60 }, "its cluster DNS resolves names"],
    ["few lookups that fail", { failedLookupsPerMille: 50 }, undefined],
    ["flows that fail", { failedFlowsPerMille: 21 }, "flows to its services succeed"],
    ["endpoints that stay unready", { endpoints: 40, readyEndpoints: 35 }, "endpoints become ready"],
    ["a few unready ones of many", { endpoints: 40, readyEndpoints: 36 }, undefined],
  ])("minds %s", (_what, now, fault) => {
    expect(facts(now, { ...NONE, endpoints: 40, readyEndpoints: 40 })).toBe(fault);
  });
  it("minds fewer failed flows after the upgrade than while nodes are replaced", () => {
    const now = { ...NONE, failedFlowsPerMille: 50 };
    expect([facts(now, NONE, "during"), facts(now, NONE)]).toEqual([
      undefined,
      "flows to its services succeed",
    ]);
  });
  it("does not mind what failed before, nor unready endpoints while nodes are replaced", () => {
    const bad = { failedLookupsPerMille: 900, failedFlowsPerMille: 900, endpoints: 9, readyEndpoints: 1 };
    expect(facts(bad, bad)).toBeUndefined();
    expect(facts({ failedLookupsPerMille: 900 }, {})).toBeUndefined();
    expect(
      facts({ endpoints: 9, readyEndpoints: 1 }, { endpoints: 9, readyEndpoints: 9 }, "during"),
    ).toBeUndefined();
  });
});
