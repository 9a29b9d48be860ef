import { generateKeyPairSync } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { candidateCheck } from "#domain/gateway-candidates.ts";
import { planGateways } from "./plan-gateways.ts";

const KEYS = Array.from({ length: 6 }, () => {
  const { x } = generateKeyPairSync("x25519").publicKey.export({ format: "jwk" });
  return Buffer.from(x ?? "", "base64url").toString("base64");
});
const [KEY = "", OTHER = ""] = KEYS;
const NETWORK = [parsePrefix("10.112.0.0/12")];

function reported(cluster: string, spec: Partial<Gateway["spec"]> = {}, age = 1): Gateway {
  const { ordinal = 0 } = spec;
  return {
    metadata: {
      namespace: `fleet-member-${cluster}`,
      name: `${cluster}-${ordinal}`,
      creationTimestamp: `2026-01-01T00:00:0${age}Z`,
    },
    spec: { cluster, ordinal, node: "n1", keys: [{ epoch: 1, publicKey: KEY }], ...spec },
  };
}
const plan = (all: readonly Gateway[], shown: ReturnType<typeof planGateways>["shown"] = []) =>
  planGateways({
    reported: all,
    shown: new Map(shown.map(({ name, spec }) => [name, { metadata: { name }, spec }])),
    networkOf: () => NETWORK,
    checkOf: (_cluster, network) => candidateCheck(undefined, { servers: [], uid: undefined }, network),
  });
const names = ({ shown }: ReturnType<typeof planGateways>) => shown.map((it) => it.name).toSorted();
const reasons = ({ verdicts }: ReturnType<typeof planGateways>) =>
  Object.fromEntries(verdicts.map((it) => [it.gateway.metadata.name, it.condition.reason]));

describe("gateways", () => {
  it("of members are shown with what others need, and have a condition", () => {
    const candidates = [
      { type: "public" as const, address: "8.8.8.8" },
      { type: "private" as const, address: "10.112.0.9" },
    ];
    const { shown, verdicts } = plan([reported("a", { candidates, basePort: 31_820, index: 77 })]);
    expect(shown).toEqual([
      {
        name: "a-0",
        spec: {
          cluster: "a",
          ordinal: 0,
          node: "n1",
          keys: [{ epoch: 1, publicKey: KEY }],
          basePort: 31_820,
          candidates: [candidates[0]],
          index: 0,
        },
      },
    ]);
    expect(verdicts[0]?.condition).toMatchObject({
      status: "True",
      message: 'other members see it; 1 of 2 candidates cannot be used: "10.112.0.9" is a fleet address',
    });
  });

  it("that name another cluster are refused, and so are those with faults", () => {
    const foreign = reported("a", { cluster: "b" });
    const bad = reported("c", { keys: [{ epoch: 1, publicKey: "x" }] });
    const result = plan([
      { ...foreign, metadata: { ...foreign.metadata, namespace: "fleet-member-b", name: "a-0" } },
      bad,
    ]);
    expect(names(result)).toEqual([]);
    expect(reasons(result)).toEqual({ "a-0": "InvalidGateway", "c-0": "InvalidGateway" });
  });

  it("do not share a key: who is shown with it keeps it, otherwise the older one", () => {
    const [older, newer] = [reported("b", {}, 1), reported("a", {}, 2)];
    const first = plan([newer, older]);
    expect(reasons(first)).toEqual({ "b-0": "Accepted", "a-0": "DuplicateKey" });
    expect(first.verdicts.find((it) => it.gateway === newer)?.condition.message).toContain("gateway b-0");
    const shown = plan([newer]).shown;
    expect(reasons(plan([newer, older], shown))).toEqual({ "b-0": "DuplicateKey", "a-0": "Accepted" });
    const stolen = reported("x", { keys: [{ epoch: 2, publicKey: OTHER }] }, 0);
    const renewed = reported(
      "a",
      {
        keys: [
          { epoch: 1, publicKey: KEY },
          { epoch: 2, publicKey: OTHER },
        ],
      },
      2,
    );
    expect(reasons(plan([stolen, renewed], plan([renewed]).shown))).toEqual({
      "a-0": "Accepted",
      "x-0": "DuplicateKey",
    });
  });

  it("have small numbers, each its own, that stay while they are there", () => {
    const any = fc.uniqueArray(
      fc.record({ cluster: fc.constantFrom("a", "b", "c"), ordinal: fc.nat({ max: 3 }) }),
      { selector: (it) => `${it.cluster}-${it.ordinal}` },
    );
    fc.assert(
      fc.property(any, any, (before, after) => {
        const all = (list: typeof before) =>
          list.map(({ cluster, ordinal }) => reported(cluster, { ordinal, keys: [] }));
        const first = plan(all(before)).shown;
        const second = plan(all(after), first).shown;
        const numbers = second.map((it) => it.spec.index ?? -1);
        expect(new Set(numbers).size).toBe(second.length);
        expect(Math.max(-1, ...numbers)).toBeLessThan(Math.max(before.length, after.length));
        for (const { name, spec } of second) {
          const was = first.find((it) => it.name === name);
          if (was !== undefined) expect(spec.index).toBe(was.spec.index);
        }
      }),
    );
  });

  it("beyond 1024 are refused, and the others stay", () => {
    const all = Array.from({ length: 257 }, (_, at) => at).flatMap((at) =>
      [0, 1, 2, 3].map((ordinal) => reported(`m${at}`, { ordinal, keys: [] })),
    );
    const result = plan(all);
    expect(result.shown).toHaveLength(1024);
    expect(Object.values(reasons(result)).filter((it) => it === "NoIndex")).toHaveLength(4);
  });
});
