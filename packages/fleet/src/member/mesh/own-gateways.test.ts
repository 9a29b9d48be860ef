import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { GATEWAY_LABEL } from "#api/fairlead.dev/names.ts";
import type { Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { planOwnGateways } from "./own-gateways.ts";

const NOW = Date.parse("2026-06-01T00:00:00Z");

interface Fact {
  readonly labelled?: boolean;
  /** Unit: seconds. */
  readonly lostFor?: number;
}

function node(name: string, { labelled = false, lostFor }: Fact = {}): Node {
  const lastTransitionTime = new Date(NOW - (lostFor ?? 9999) * 1000).toISOString();
  return {
    metadata: { name, ...(labelled ? { labels: { [GATEWAY_LABEL]: "true" } } : {}) },
    status: {
      conditions: [{ type: "Ready", status: lostFor === undefined ? "True" : "Unknown", lastTransitionTime }],
    },
  };
}
function gateway(ordinal: number, on: string, isWorking = true): Gateway {
  const conditions = isWorking
    ? [
        {
          type: "Accepted",
          status: "True" as const,
          reason: "Accepted",
          message: "",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ]
    : [];
  return {
    metadata: { name: `a-${ordinal}` },
    spec: {
      cluster: "a",
      ordinal,
      node: on,
      ...(isWorking ? { keys: [{ epoch: 1, publicKey: "k" }] } : {}),
    },
    status: { conditions },
  };
}
const planned = (nodes: readonly Node[], gateways: readonly Gateway[] = []) =>
  planOwnGateways({ nodes, gateways, nowMs: NOW })
    .gateways.map((it) => `${it.ordinal}:${it.node}`)
    .join(" ");

describe("the gateways of a cluster", () => {
  it.each<[string, readonly Node[], readonly Gateway[], string]>([
    ["none without nodes", [], [], ""],
    ["its only node", [node("n1")], [], "0:n1"],
    ["the first two nodes by name", [node("n3"), node("n1"), node("n2")], [], "0:n1 1:n2"],
    ["the first two that are ready", [node("n1", { lostFor: 1 }), node("n2"), node("n3")], [], "0:n2 1:n3"],
    [
      "those with the label",
      [
        node("n1"),
        node("n2", { labelled: true }),
        node("n3", { labelled: true }),
        node("n4", { labelled: true }),
      ],
      [],
      "0:n2 1:n3 2:n4",
    ],
    [
      "four of those with the label, at most",
      [1, 2, 3, 4, 5].map((at) => node(`n${at}`, { labelled: true })),
      [],
      "0:n1 1:n2 2:n3 3:n4",
    ],
    [
      "those that it has, when others come",
      [node("n0"), node("n1"), node("n2")],
      [gateway(0, "n1"), gateway(1, "n2")],
      "0:n1 1:n2",
    ],
    [
      "another with the ordinal that is free, when a node is gone",
      [node("n2"), node("n3")],
      [gateway(0, "n1"), gateway(1, "n2")],
      "0:n3 1:n2",
    ],
    [
      "the same while a node restarts",
      [node("n1", { lostFor: 200 }), node("n2"), node("n3")],
      [gateway(0, "n1"), gateway(1, "n2")],
      "0:n1 1:n2",
    ],
    [
      "another, too, when a node is not ready for five minutes",
      [node("n1", { lostFor: 301 }), node("n2"), node("n3")],
      [gateway(0, "n1"), gateway(1, "n2")],
      "0:n1 1:n2 2:n3",
    ],
    [
      "the other alone, once it works",
      [node("n1", { lostFor: 301 }), node("n2"), node("n3")],
      [gateway(0, "n1"), gateway(1, "n2"), gateway(2, "n3")],
      "1:n2 2:n3",
    ],
    [
      "both until the other works",
      [node("n1", { lostFor: 301 }), node("n2"), node("n3")],
      [gateway(0, "n1"), gateway(1, "n2"), gateway(2, "n3", false)],
      "0:n1 1:n2 2:n3",
    ],
    [
      "the one that is not ready, if there is no other",
      [node("n1", { lostFor: 999 })],
      [gateway(0, "n1")],
      "0:n1",
    ],
    [
      "those with the label in addition to the former ones, until they work",
      [node("n1"), node("n2"), node("n3", { labelled: true }), node("n4", { labelled: true })],
      [gateway(0, "n1"), gateway(1, "n2")],
      "0:n1 1:n2 2:n3 3:n4",
    ],
    [
      "those with the label in the place of former ones, where there are too many",
      [node("n1"), node("n2"), ...[3, 4, 5, 6].map((at) => node(`n${at}`, { labelled: true }))],
      [gateway(0, "n1"), gateway(1, "n2")],
      "0:n3 1:n4 2:n5 3:n6",
    ],
  ])("are %s", (_what, nodes, gateways, expected) => {
    expect(planned(nodes, gateways)).toBe(expected);
  });

  it("have ordinals of their own, and the plan is reached whatever happens to nodes", () => {
    const anyNodes = fc.uniqueArray(
      fc.record({
        name: fc.constantFrom("n1", "n2", "n3", "n4", "n5", "n6"),
        labelled: fc.boolean(),
        lostFor: fc.option(fc.integer({ min: 0, max: 600 }), { nil: undefined }),
      }),
      { selector: (it) => it.name },
    );
    fc.assert(
      fc.property(fc.array(anyNodes, { maxLength: 6 }), (changes) => {
        let gateways: Gateway[] = [];
        for (const facts of changes) {
          const nodes = facts.map(({ name, labelled, lostFor }) =>
            node(name, lostFor === undefined ? { labelled } : { labelled, lostFor }),
          );
          let last = "";
          for (let pass = 0; pass < 4; pass += 1) {
            const plan = planOwnGateways({ nodes, gateways, nowMs: NOW }).gateways;
            expect(new Set(plan.map((it) => it.ordinal)).size).toBe(plan.length);
            expect(new Set(plan.map((it) => it.node)).size).toBe(plan.length);
            expect(plan.every((it) => it.ordinal >= 0 && it.ordinal <= 3)).toBe(true);
            const text = JSON.stringify(plan);
            if (pass === 3) expect(text).toBe(last);
            last = text;
            gateways = plan.map((it) => gateway(it.ordinal, it.node));
          }
          const isAny = facts.some((it) => it.labelled || it.lostFor === undefined);
          if (isAny) expect(gateways.length).toBeGreaterThan(0);
        }
      }),
    );
  });
});
