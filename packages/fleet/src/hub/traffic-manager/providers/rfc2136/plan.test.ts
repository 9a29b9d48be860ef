import { array, assert, integer, property } from "fast-check";
import { describe, expect, it } from "vitest";
import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { type ActualName, drawSubset, identityOf, planUpdate, planWithdrawal, recordsOf } from "./plan.ts";

const weights = array(integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 8 });
const named = (parts: readonly number[]) => parts.map((weight, at) => ({ name: `t${at}`, weight }));
const sum = (parts: readonly number[]): number => parts.reduce((all, it) => all + it, 0);

describe("the subset of a slice of time", () => {
  it("is everybody, always, where all weigh the same: nothing has to be updated", () => {
    for (const slice of [0, 1, 2, 29_000_000]) expect(drawSubset(named([7, 7, 7]), slice)).toHaveLength(3);
  });

  it("is as large as the weights allow: the heaviest is in all of them at most", () => {
    expect(drawSubset(named([500, 300, 200]), 5)).toHaveLength(2);
    expect(drawSubset(named([2, 1]), 5)).toHaveLength(1);
    expect(drawSubset(named([2, 1, 1]), 5, 1)).toHaveLength(1);
  });

  it("has its size in every slice, each target once", () => {
    assert(
      property(weights, integer({ min: 0, max: 40_000_000 }), (parts, slice) => {
        const drawn = drawSubset(named(parts), slice);
        expect(drawn).toHaveLength(Math.min(parts.length, Math.floor(sum(parts) / Math.max(...parts))));
        expect(new Set(drawn).size).toBe(drawn.length);
      }),
    );
  });

  it("gives each target its share over time, whenever one begins to look", () => {
    const slices = 2000;
    assert(
      property(weights, integer({ min: 0, max: 40_000_000 }), (parts, from) => {
        const targets = named(parts);
        const shares = new Map<string, number>();
        for (let slice = from; slice < from + slices; slice++) {
          const drawn = drawSubset(targets, slice);
          for (const { name } of drawn) shares.set(name, (shares.get(name) ?? 0) + 1 / drawn.length / slices);
        }
        for (const { name, weight } of targets)
          expect(Math.abs((shares.get(name) ?? 0) - weight / sum(parts))).toBeLessThan(0.01);
      }),
      { numRuns: 25 },
    );
  });
});

const target = (host: number, more: Partial<TrafficTarget> = {}): TrafficTarget => ({
  name: `t${host}`,
  weight: 1,
  addresses: [`192.0.2.${host}`],
  ...more,
});
const identity = identityOf("work-web", "tm.example", "hub-1");
const records = (...targets: readonly TrafficTarget[]) =>
  recordsOf(identity.fqdn, { targets, ttlSeconds: 60 }, 120_000 + 15_000);
const mine: ActualName = {
  owners: ["heritage=fairlead,owner=hub-1,profile=work/web"],
  records: records(target(1), target(2)).records,
};
const wanted = (...targets: readonly TrafficTarget[]) => ({
  records: records(...targets).records,
  profile: "work/web",
});

describe("records of a name", () => {
  it("stay as they are while weights are equal; otherwise until the slice ends", () => {
    expect(records(target(1), target(2)).changeInMs).toBeUndefined();
    expect(records(target(1), target(2, { weight: 2 })).changeInMs).toBe(45_000);
  });

  it("have one address of each family for a target among others, and all addresses of a single target", () => {
    const two = target(1, { addresses: ["192.0.2.1", "192.0.2.11", "2001:db8::1"] });
    expect(records(two, target(2)).records).toHaveLength(3);
    expect(records(two).records).toHaveLength(3);
    expect(records({ ...two, addresses: ["192.0.2.1", "192.0.2.11"] }, target(2)).records).toHaveLength(2);
  });

  it("are an alias alone, where any target has a domain", () => {
    const { addresses: _none, ...alias } = target(1, { hostname: "lb.example" });
    for (let slice = 0; slice < 20; slice++) {
      const of = { targets: [alias, target(2), target(3)], ttlSeconds: 60 };
      expect(recordsOf(identity.fqdn, of, slice * 60_000).records).toHaveLength(1);
    }
  });
});

describe("an update", () => {
  it("is not sent if nothing differs", () => {
    expect(planUpdate(mine, wanted(target(2), target(1)), identity)).toBeUndefined();
  });

  it("of a free name has the prerequisite that the name is free", () => {
    const update = planUpdate({ owners: [], records: [] }, wanted(target(1)), identity);
    expect(update?.prerequisites.map((it) => [it.name, it.class])).toEqual([
      ["work-web.tm.example.", 254],
      ["_fairlead.work-web.tm.example.", 254],
    ]);
    expect(update?.changes).toHaveLength(2);
  });

  it("of our own holds only while it is our own, and changes only what differs", () => {
    const update = planUpdate(mine, wanted(target(2), target(3)), identity);
    expect(update?.prerequisites).toMatchObject([{ data: { type: "TXT", strings: mine.owners } }]);
    expect(update?.changes.map((it) => [it.class, it.data])).toEqual([
      [254, { type: "A", address: 0xc0_00_02_01 }],
      [1, { type: "A", address: 0xc0_00_02_03 }],
    ]);
  });

  it("leads, with what the zone then has, to no further update", () => {
    const hosts = array(integer({ min: 1, max: 6 }), { maxLength: 6 });
    assert(
      property(hosts, hosts, (before, after) => {
        const of = (some: readonly number[]) => wanted(...new Set(some).values().map((it) => target(it)));
        const actual: ActualName = { ...mine, records: of(before).records };
        const update = planUpdate(actual, of(after), identity);
        const kept = actual.records.filter(
          (it) =>
            !update?.changes.some(
              (one) => one.class === 254 && JSON.stringify(one.data) === JSON.stringify(it.data),
            ),
        );
        const added = update?.changes.filter((it) => it.class === 1) ?? [];
        expect(planUpdate({ ...mine, records: [...kept, ...added] }, of(after), identity)).toBeUndefined();
      }),
    );
  });

  it("that deletes a name is not sent if the name has another owner", () => {
    expect(
      planWithdrawal({ ...mine, owners: ["heritage=fairlead,owner=hub-10,profile=work/web"] }, identity),
    ).toBeUndefined();
    expect(planWithdrawal(mine, identity)?.changes).toHaveLength(4);
  });
});
