/** Network policies with packets: two nodes with the real kernel, and an API server in memory. */

import { afterAll, beforeAll, expect, it } from "vitest";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { PolicyWorld, PORTS } from "./policy-world.ts";

let world: PolicyWorld;

function policy(namespace: string, name: string, spec: NetworkPolicy["spec"]): NetworkPolicy {
  return { metadata: { namespace, name }, spec: spec ?? {} };
}

/** Denied connections, as "from -> to:port", of those that the filter names. */
async function denied(isOf: (from: string, to: string) => boolean): Promise<readonly string[]> {
  const tries = world.ids.flatMap((from) =>
    world.ids.flatMap((to) =>
      from === to || !isOf(from, to) ? [] : PORTS.map((port) => ({ from, to, port })),
    ),
  );
  const answers = await Promise.all(
    tries.map(async (it) =>
      (await world.asks(it.from, it.to, it)) ? [] : [`${it.from} -> ${it.to}:${it.port}`],
    ),
  );
  return answers.flat();
}

describeOnKernel("the table of policies", () => {
  beforeAll(async () => {
    world = await PolicyWorld.start([
      { namespace: "x", name: "a", node: 1 },
      { namespace: "x", name: "b", node: 1 },
      { namespace: "x", name: "c", node: 2 },
      { namespace: "y", name: "a", node: 1 },
      { namespace: "y", name: "b", node: 2 },
      { namespace: "x", name: "a", node: 2, cluster: "far" },
    ]);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it("lets everything pass without policies", async () => {
    expect(await denied(() => true)).toEqual([]);
  });

  it("cuts off a cluster that a rule does not name", async () => {
    const own = { matchLabels: { "io.cilium.k8s.policy.cluster": "own" } };
    const far = { matchLabels: { "io.cilium.k8s.policy.cluster": "far" } };
    await world.setPolicies([
      policy("x", "p", {
        podSelector: { matchLabels: { pod: "b" } },
        ingress: [{ from: [{ podSelector: own }] }],
      }),
    ]);
    const to = (_: string, it: string): boolean => it === "x/b";
    expect(await denied(to)).toEqual(
      ["far:x/a", "y/a", "y/b"].flatMap((it) => PORTS.map((port) => `${it} -> x/b:${port}`)),
    );
    await world.setPolicies([
      policy("x", "p", {
        podSelector: { matchLabels: { pod: "b" } },
        ingress: [{ from: [{ podSelector: far }] }],
      }),
    ]);
    expect(await denied(to)).toEqual(
      ["x/a", "x/c", "y/a", "y/b"].flatMap((it) => PORTS.map((port) => `${it} -> x/b:${port}`)),
    );
  });
});
