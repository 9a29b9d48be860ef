import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { addressAt, containsAddress, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Allocation } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import {
  type AddressPlan,
  type AddressWish,
  nodeAddress,
  planAddresses,
  QUARANTINE_MS,
} from "./addresses.ts";

const BLOCKS = ["10.112.1.0/28", "fd00:1::/64"];
const T0 = Date.parse("2026-01-01T00:00:00Z");
const wish = (more: Partial<AddressWish> = {}): AddressWish => ({
  podUIDs: [],
  blocks: BLOCKS,
  nowMs: T0,
  ...more,
});
const plan = (before: readonly Allocation[], more: Partial<AddressWish>): AddressPlan =>
  planAddresses(before, wish(more));

describe("the fleet addresses of a node's pods", () => {
  it("stay with a pod, rest after it for 150 s, and are then for others", () => {
    const first = plan([], { podUIDs: ["a"] });
    expect(first).toMatchObject({ exhausted: [], dueAtMs: undefined });
    const gone = plan(first.allocations, { nowMs: T0 + 1000 });
    expect(gone.allocations).toEqual([{ ...first.allocations[0], releasedAt: "2026-01-01T00:00:01.000Z" }]);
    expect(gone.dueAtMs).toBe(T0 + 1000 + QUARANTINE_MS);
    expect(plan(gone.allocations, { nowMs: T0 + 150_999 }).allocations).toEqual(gone.allocations);
    expect(plan(gone.allocations, { nowMs: T0 + 151_000 })).toEqual({
      allocations: [],
      exhausted: [],
      dueAtMs: undefined,
    });
  });

  it("are the same again for a pod that is attached again before the quarantine ends", () => {
    const first = plan([], { podUIDs: ["a"] });
    const gone = plan(first.allocations, { nowMs: T0 + 1000 });
    expect(plan(gone.allocations, { podUIDs: ["a"], nowMs: T0 + 2000 })).toEqual(first);
  });

  it("run out of a block with the pod that finds none, and return when others have rested", () => {
    const uids = Array.from({ length: 14 }, (_, at) => `pod-${String(at).padStart(2, "0")}`);
    const full = plan([], { podUIDs: uids });
    // Of 16 addresses, the network, the broadcast and the node have one each.
    expect(full.allocations).toHaveLength(13);
    expect(full.exhausted).toEqual(["pod-13"]);
    const later = plan(full.allocations, { podUIDs: uids.slice(1), nowMs: T0 + 1 });
    expect(later.exhausted).toEqual(["pod-13"]);
    const rested = plan(later.allocations, { podUIDs: uids.slice(1), nowMs: T0 + 1 + QUARANTINE_MS });
    expect(rested.exhausted).toEqual([]);
  });

  it("are exhausted where the node has no block of a family, or only one for itself", () => {
    for (const blocks of [["10.112.1.0/24"], ["fd00:1::/64"], ["10.112.1.0/32", "fd00:1::/64"], []])
      expect(plan([], { podUIDs: ["a"], blocks })).toMatchObject({ allocations: [], exhausted: ["a"] });
  });

  it("come from all blocks of the node", () => {
    const blocks = ["10.112.1.0/29", "10.112.9.0/29", "fd00:1::/64"];
    const uids = Array.from({ length: 10 }, (_, at) => `pod-${at}`);
    const { allocations, exhausted } = plan([], { podUIDs: uids, blocks });
    expect(exhausted).toEqual([]);
    expect(new Set(allocations.map((it) => it.ipv4.split(".")[2]))).toEqual(new Set(["1", "9"]));
  });

  it("rest no longer than the quarantine when a clock was wrong", () => {
    const [it = { podUID: "", ipv4: "", ipv6: "" }] = plan([], { podUIDs: ["a"] }).allocations;
    for (const releasedAt of ["2036-01-01T00:00:00Z", "never"])
      expect(plan([{ ...it, releasedAt }], {}).dueAtMs).toBe(T0 + QUARANTINE_MS);
  });

  it("are the first of a block for the node itself", () => {
    expect(BLOCKS.map((it) => nodeAddress(it))).toEqual(["10.112.1.1", "fd00:1::1"]);
  });
});

/** A record that anything may have happened to. */
const anyRecord = fc.array(
  fc.record(
    {
      podUID: fc.constantFrom("a", "b", "c", "d"),
      ipv4: fc.constantFrom("10.112.1.1", "10.112.1.2", "10.112.1.3", "10.112.2.2", "10.112.1.15", "x"),
      ipv6: fc.constantFrom("fd00:1::", "fd00:1::1", "fd00:1::2", "fd00:1::3", "fd00:2::2", ""),
      releasedAt: fc.constantFrom("2025-12-31T23:59:00Z", "2026-01-01T00:01:00Z", "soon"),
    },
    { requiredKeys: ["podUID", "ipv4", "ipv6"] },
  ),
  { maxLength: 6 },
);
const step = fc.record({
  podUIDs: fc.subarray(Array.from({ length: 20 }, (_, at) => `pod-${at}`)),
  laterMs: fc.nat(200_000),
});

describe("the fleet addresses of a node's pods, whatever happens to pods and record", () => {
  const check = ({ allocations, exhausted }: AddressPlan, uids: readonly string[]): void => {
    for (const family of ["ipv4", "ipv6"] as const) {
      const addresses = allocations.map((it) => it[family]);
      expect(new Set(addresses).size).toBe(addresses.length);
      const block = parsePrefix(BLOCKS[family === "ipv4" ? 0 : 1] ?? "");
      const reserved = [0, 1, ...(family === "ipv4" ? [-1] : [])].map((at) => addressAt(block, at));
      for (const it of addresses.map((text) => parseAddress(text))) {
        expect(containsAddress(block, it)).toBe(true);
        expect(reserved).not.toContain(it);
      }
    }
    const inUse = allocations.filter((it) => it.releasedAt === undefined).map((it) => it.podUID);
    expect([...inUse, ...exhausted].toSorted()).toEqual([...uids].toSorted());
    expect(new Set(allocations.map((it) => it.podUID)).size).toBe(allocations.length);
    if (exhausted.length > 0) expect(allocations).toHaveLength(13);
  };

  it("are never shared, stay with their pods, rest before others have them, and need no second plan", () => {
    fc.assert(
      fc.property(anyRecord, fc.array(step, { maxLength: 8 }), (record, steps) => {
        let nowMs = T0;
        let last = plan(record, { podUIDs: ["a", "b"] });
        check(last, ["a", "b"]);
        for (const { podUIDs, laterMs } of steps) {
          nowMs += laterMs;
          const after = plan(last.allocations, { podUIDs, nowMs });
          check(after, podUIDs);
          expect(plan(after.allocations, { podUIDs, nowMs })).toEqual(after);
          const now = new Map(after.allocations.map((it) => [it.podUID, it]));
          for (const old of last.allocations) {
            const { podUID, ipv4, ipv6 } = old;
            const isRested =
              old.releasedAt !== undefined && Date.parse(old.releasedAt) + QUARANTINE_MS <= nowMs;
            if (!isRested) expect(now.get(podUID)).toMatchObject({ ipv4, ipv6 });
          }
          last = after;
        }
      }),
    );
  });
});
