import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { LoadControl, type LoadedRequest } from "./load.ts";
import { createServerMeters } from "./meters.ts";
import { parsePath } from "./path.ts";

const USER = { name: "ada", groups: ["devs"] };

function request(verb: string, query = "", user: LoadedRequest["user"] = USER): LoadedRequest {
  const target = parsePath("/api/v1/namespaces/default/configmaps/a");
  return { verb, subresource: "", user, query: new URLSearchParams(query), target };
}

function userOf(name: string): LoadedRequest["user"] {
  return { name, groups: [] };
}

const meters = createServerMeters(noMetrics);

describe("load control", () => {
  it("limits reads and writes separately, and admits the next request as soon as one completes", () => {
    const limits = { maxMutatingRequestsInflight: 2, maxRequestsInflight: 1 };
    const load = new LoadControl(limits, new FakeClock(), meters);
    const held = ["ada", "bob"].map((it) => load.enter(request("create", "", userOf(it))));
    expect(() => load.enter(request("patch", "", userOf("eve")))).toThrow(
      expect.objectContaining({ code: 429 }),
    );
    expect(() => load.enter(request("list"))).not.toThrow();
    expect(() => load.enter(request("get"))).toThrow(expect.objectContaining({ code: 429 }));
    held[0]?.[Symbol.dispose]();
    expect(() => load.enter(request("update", "", userOf("eve")))).not.toThrow();
  });

  it("limits one user to a quarter of the total, except for requests on Leases", () => {
    const load = new LoadControl({ maxMutatingRequestsInflight: 8 }, new FakeClock(), meters);
    const target = parsePath("/apis/coordination.k8s.io/v1/namespaces/default/leases/a");
    for (let at = 0; at < 2; at += 1) load.enter(request("create"));
    expect(() => load.enter(request("create"))).toThrow(expect.objectContaining({ code: 429 }));
    expect(() => load.enter({ ...request("update"), target })).not.toThrow();
    for (const name of ["a", "b", "c"])
      for (let at = 0; at < 2; at += 1) load.enter(request("create", "", userOf(name)));
    expect(() => load.enter(request("create", "", userOf("d")))).toThrow(
      expect.objectContaining({ code: 429 }),
    );
    expect(() => load.enter({ ...request("update", "", userOf("d")), target })).not.toThrow();
  });

  it("never rejects an administrator", () => {
    const load = new LoadControl({ maxRequestsInflight: 0, maxWatches: 0 }, new FakeClock(), meters);
    const admin = { name: "root", groups: ["system:masters"] };
    for (const verb of ["get", "watch"]) {
      expect(() => load.enter(request(verb))).toThrow(expect.objectContaining({ code: 429 }));
      expect(() => load.enter(request(verb, "", admin))).not.toThrow();
    }
  });

  it("limits watches per user, and does not count streams", () => {
    const load = new LoadControl({ maxRequestsInflight: 0, maxWatchesPerUser: 1 }, new FakeClock(), meters);
    const held = load.enter(request("watch"));
    expect(() => load.enter(request("watch"))).toThrow(expect.objectContaining({ code: 429 }));
    expect(() => load.enter(request("watch", "", { name: "bob", groups: [] }))).not.toThrow();
    held[Symbol.dispose]();
    expect(() => load.enter(request("watch"))).not.toThrow();
    expect(() => load.enter({ ...request("get"), subresource: "log" })).not.toThrow();
  });

  it.each([
    ["", 60_000],
    ["timeout=1m30s", 60_000],
    ["timeout=0s", 60_000],
    ["timeout=1.5s", 1500],
    ["timeout=250ms", 250],
  ])("allows a request with %j at most %d ms", async (query, limitMs) => {
    const clock = new FakeClock();
    const load = new LoadControl({}, clock, meters);
    let outcome = "waits";
    const done = load
      .within(request("get", query), () => new Promise(() => {}))
      .catch((error: unknown) => {
        outcome = (error as { code: number }).code === 504 ? "late" : "other";
      });
    await clock.advance(limitMs - 1);
    expect(outcome).toBe("waits");
    await clock.advance(1);
    await done;
    expect(outcome).toBe("late");
  });

  it("rejects a malformed timeout", async () => {
    const load = new LoadControl({}, new FakeClock(), meters);
    const asked = load.within(request("get", "timeout=foo"), () => Promise.resolve());
    await expect(asked).rejects.toMatchObject({ code: 400 });
  });
});
