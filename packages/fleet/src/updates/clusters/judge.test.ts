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
