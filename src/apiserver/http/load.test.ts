import { describe, expect, it } from "vitest";
import { FakeClock } from "#base/clock.fake.ts";
import { LoadControl, type LoadedRequest } from "./load.ts";

const USER = { name: "ada", groups: ["devs"] };

function request(verb: string, query = "", user: LoadedRequest["user"] = USER): LoadedRequest {
  return { verb, subresource: "", user, query: new URLSearchParams(query) };
}

describe("what is under way", () => {
  it("is bounded for those who write and for those who read apart, and makes room as soon as one is done", () => {
    const load = new LoadControl({ maxMutatingRequestsInflight: 2, maxRequestsInflight: 1 }, new FakeClock());
    const held = [load.enter(request("create")), load.enter(request("delete"))];
    expect(() => load.enter(request("patch"))).toThrow(expect.objectContaining({ code: 429 }));
    expect(() => load.enter(request("list"))).not.toThrow();
    expect(() => load.enter(request("get"))).toThrow(expect.objectContaining({ code: 429 }));
    held[0]?.[Symbol.dispose]();
    expect(() => load.enter(request("update"))).not.toThrow();
  });

  it("never keeps an administrator out", () => {
    const load = new LoadControl({ maxRequestsInflight: 0, maxWatches: 0 }, new FakeClock());
    const admin = { name: "root", groups: ["system:masters"] };
    for (const verb of ["get", "watch"]) {
      expect(() => load.enter(request(verb))).toThrow(expect.objectContaining({ code: 429 }));
      expect(() => load.enter(request(verb, "", admin))).not.toThrow();
    }
  });

  it("counts watches by user, and streams not at all", () => {
    const load = new LoadControl({ maxRequestsInflight: 0, maxWatchesPerUser: 1 }, new FakeClock());
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
  ])("with %j may take no longer than %d ms", async (query, limitMs) => {
    const clock = new FakeClock();
    const load = new LoadControl({}, clock);
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

  it("refuses a timeout that is none", async () => {
    const load = new LoadControl({}, new FakeClock());
    const asked = load.within(request("get", "timeout=foo"), () => Promise.resolve());
    await expect(asked).rejects.toMatchObject({ code: 400 });
  });
});
