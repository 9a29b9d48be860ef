import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { fqdnSetsOf } from "#policy/enforced.ts";
import { fqdnPeer, ofGroup } from "#policy/peers.ts";
import type { Changes, Group, SetChange } from "#policy/state.ts";
import { describe, expect, it } from "vitest";
import { FqdnSets, onlyLearns } from "./fqdn-sets.ts";
import { IPV4, peerSet } from "./names.ts";

const POD = parseAddress("10.244.1.7");
const WEB = parseAddress("192.168.2.1");
const NAME = "web.example.com";
const KEY = `fqdn:${NAME}`;

function changes(more: Partial<Changes> = {}): Changes {
  return { sets: [], groups: [], groupsGone: [], addresses: [], host: undefined, ...more };
}

const NEW: SetChange = { key: KEY, state: "new", added: [], removed: [] };

function answer(untilMs: number) {
  return { pod: POD, name: NAME, sets: [NAME], addresses: new Map([[WEB, untilMs]]) };
}

function world() {
  const clock = new FakeClock();
  const due = { count: 0 };
  const sets = new FqdnSets(clock, () => due.count++);
  return { clock, due, sets };
}

it("answers wait until the kernel has their addresses, and no longer where it has them", async () => {
  const { clock, due, sets } = world();
  sets.take(changes({ sets: [NEW] })).written();
  let isDone = false;
  const learned = sets.learn(answer(clock.monotonic() + 1000)).then(() => (isDone = true));
  const { changes: found, written } = sets.take(changes());
  expect(found.sets).toEqual([{ key: KEY, state: "changed", added: [WEB], removed: [] }]);
  const second = sets.learn(answer(clock.monotonic() + 1000));
  await Promise.resolve();
  expect([isDone, due.count]).toEqual([false, 2]);
  written();
  await learned;
  sets.take(changes()).written();
  await second;
  await sets.learn(answer(clock.monotonic() + 1000));
  expect(due.count).toBe(2);
});

it("adopts the addresses that an agent before it left in the kernel", async () => {
  const { clock, sets } = world();
  const elements = new Map([["192.168.2.1", ""]]);
  const actual = {
    chains: new Map(),
    sets: new Map([[peerSet(KEY, IPV4), { key: ["ipv4_addr" as const], elements }]]),
  };
  const { changes: found } = sets.take(changes({ sets: [NEW] }), actual);
  expect(found.sets).toEqual([NEW, { key: KEY, state: "changed", added: [WEB], removed: [] }]);
  await clock.advance(300_001);
  await sets.expire(() => Promise.resolve(new Set([WEB])));
  expect(sets.take(changes()).changes.sets).toEqual([]);
  await clock.advance(10_001);
  await sets.expire(() => Promise.resolve(new Set()));
  expect(sets.take(changes()).changes.sets).toMatchObject([{ added: [], removed: [WEB] }]);
});

it("forgets what a pod learned when the pod is gone", async () => {
  const { clock, sets } = world();
  sets.take(changes({ sets: [NEW] })).written();
  void sets.learn(answer(clock.monotonic() + 1000));
  sets.take(changes()).written();
  const gone = sets.take(changes({ addresses: [{ address: POD, groups: undefined }] }));
  expect(gone.changes.sets).toMatchObject([{ removed: [WEB] }]);
});

it("no flow is revoked where names have more addresses, and nothing else changes", () => {
  const more: SetChange = { key: KEY, state: "changed", added: [WEB], removed: [] };
  expect(onlyLearns(changes({ sets: [more] }))).toBe(true);
  for (const it of [
    {},
    { sets: [more, { ...more, key: "pods:x" }] },
    { sets: [{ ...more, removed: [WEB] }] },
    { sets: [NEW] },
    { sets: [more], host: {} },
    { sets: [more], groupsGone: ["e1"] },
    { sets: [more], addresses: [{ address: POD, groups: {} }] },
  ])
    expect(onlyLearns(changes(it))).toBe(false);
});

describe("what a pod learned", () => {
  const group = (key: string): Group => ({
    key,
    way: "egress",
    tiers: [
      {
        tier: "network-policy",
        isDefaultDeny: true,
        rules: [
          {
            action: "allow",
            peers: [ofGroup(fqdnPeer(NAME), key)],
            ports: "any",
            origin: "spec.egress[0]",
            policy: { kind: "CiliumNetworkPolicy", name: "p" },
          },
        ],
      },
    ],
  });
  const setOf = (key: string): SetChange => ({ ...NEW, key: ofGroup(fqdnPeer(NAME), key).key });

  it("counts for pods that the same policies select, and stays when others select it", () => {
    const { clock, sets } = world();
    const groups = ["e1", "e2"].map(group);
    const addresses = [{ address: POD, groups: { egress: "e1" } }];
    sets.take(changes({ sets: ["e1", "e2"].map(setOf), groups, addresses })).written();
    void sets.learn({ ...answer(clock.monotonic() + 1000), sets: groups.slice(0, 1).flatMap(fqdnSetsOf) });
    const learned = sets.take(changes());
    learned.written();
    expect(learned.changes.sets).toMatchObject([{ key: setOf("e1").key, added: [WEB] }]);
    const moved = sets.take(changes({ addresses: [{ address: POD, groups: { egress: "e2" } }] }));
    expect(moved.changes.sets).toMatchObject([
      { key: setOf("e2").key, added: [WEB] },
      { key: setOf("e1").key, removed: [WEB] },
    ]);
  });
});
