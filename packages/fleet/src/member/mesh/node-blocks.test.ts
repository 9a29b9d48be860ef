import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { containsPrefix, overlaps, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { type AddressBlock, RELEASED_AT_ANNOTATION } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { NODE_RECLAIM_MS, nodeBlockName, planNodeBlocks } from "./node-blocks.ts";

const NOW = Date.parse("2026-06-01T00:00:00Z");
const OWN = { profile: "p", cluster: "a", ipv4: ["10.112.8.0/21"], ipv6: ["fd12:3456:789a:100::/56"] };

function node(name: string, address = "192.168.0.1"): Node {
  return { metadata: { name }, status: { addresses: [{ type: "InternalIP", address }] } };
}
function planned(nodes: readonly string[], blocks: readonly AddressBlock[] = [], nowMs = NOW) {
  return planNodeBlocks({ own: OWN, nodes: nodes.map((it) => node(it)), blocks, nowMs });
}
function stored({ blocks }: ReturnType<typeof planNodeBlocks>): AddressBlock[] {
  return blocks.map(({ name, spec, releasedAt }) => ({
    metadata: {
      name,
      ...(releasedAt === undefined ? {} : { annotations: { [RELEASED_AT_ANNOTATION]: releasedAt } }),
    },
    spec,
  }));
}

describe("blocks of nodes", () => {
  it("are parts of the cluster's block, with the address by which other nodes reach the node", () => {
    const { blocks, lacking } = planned(["n2", "n1"]);
    expect(lacking).toEqual([]);
    expect(blocks.find((it) => it.spec.node === "n1")).toEqual({
      name: "node.n1",
      spec: {
        profile: "p",
        cluster: "a",
        node: "n1",
        nodeAddress: "192.168.0.1",
        ipv4: ["10.112.8.0/24"],
        ipv6: ["fd12:3456:789a:100::/64"],
      },
    });
  });

  it("have names that no member has, which fit", () => {
    expect(nodeBlockName("n1.example")).toBe("node.n1.example");
    const long = "n".repeat(253);
    expect(nodeBlockName(long).length).toBeLessThan(254);
    expect(nodeBlockName(long)).not.toBe(nodeBlockName(`${long.slice(1)}m`));
  });

  it("stay with a node, and for an hour after it, while nodes come and go", () => {
    const step = fc.record({
      present: fc.subarray(["a", "b", "c", "d", "e"]),
      minutes: fc.integer({ min: 0, max: 80 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        let blocks: AddressBlock[] = [];
        let nowMs = NOW;
        const heldUntilMs = new Map<string, { readonly node: string; readonly ms: number }>();
        for (const { present, minutes } of steps) {
          nowMs += minutes * 60_000;
          const plan = planned(present, blocks, nowMs);
          blocks = stored(plan);
          const all = blocks.flatMap((it) => [...it.spec.ipv4, ...it.spec.ipv6]).map((it) => parsePrefix(it));
          const parents = [...OWN.ipv4, ...OWN.ipv6].map((it) => parsePrefix(it));
          for (const [at, it] of all.entries()) {
            expect(parents.some((parent) => containsPrefix(parent, it))).toBe(true);
            expect(all.slice(0, at).some((other) => overlaps(it, other))).toBe(false);
          }
          const live = plan.blocks.filter((it) => it.releasedAt === undefined);
          expect(new Set(live.map((it) => it.spec.node))).toEqual(new Set(present));
          expect(live).toHaveLength(present.length);
          for (const { spec } of live) {
            const [key = "", owner = ""] = [spec.ipv4[0], spec.node];
            const before = heldUntilMs.get(key);
            if (before !== undefined && before.node !== owner)
              expect(nowMs).toBeGreaterThanOrEqual(before.ms);
            heldUntilMs.set(key, { node: owner, ms: nowMs + NODE_RECLAIM_MS });
          }
        }
      }),
    );
  });

  it("that are used up leave a node without one, which is named", () => {
    const names = Array.from({ length: 9 }, (_, at) => `n${at}`);
    const plan = planned(names);
    expect(plan.lacking).toEqual(["n8"]);
    const fewer = planned(names.slice(1), stored(plan));
    expect(fewer.lacking).toEqual(["n8"]);
    expect(fewer.againInMs).toBe(NODE_RECLAIM_MS);
    expect(planned(names.slice(1), stored(fewer), NOW + NODE_RECLAIM_MS).lacking).toEqual([]);
  });
});
