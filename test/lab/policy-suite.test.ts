/** The cases of the NetworkPolicy suite of Kubernetes and of the one of the Network Policy API, on two nodes with the real kernel, and an API server in memory. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { type IsAllowed, POLICY_CASES } from "./policy-cases.ts";
import { CLUSTER_CASES } from "./policy-cluster-cases.ts";
import { PolicyWorld, PORTS, type Verb } from "./policy-world.ts";

let world: PolicyWorld;

const NAMESPACES = ["x", "y", "z"];
const PODS = ["a", "b", "c"];
/** Longest that an answer may take on a busy machine. Unit: milliseconds. */
const PATIENCE_MS = 10_000;

/** What differs from the truth table, as "from -> to:port". */
async function differences(allows: IsAllowed, verb: Verb = "tcp"): Promise<readonly string[]> {
  const tries = world.ids.flatMap((from) =>
    world.ids.flatMap((to) => (from === to ? [] : PORTS.map((port) => ({ from, to, port })))),
  );
  const answers = await Promise.all(
    tries.map(async ({ from, to, port }) => {
      const isAllowed = allows(from, to, port, world);
      // A busy machine may answer late, and never answers what is denied.
      const isAnswered =
        (await world.asks(from, to, { port, verb })) ||
        (isAllowed && (await world.asks(from, to, { port, verb, timeoutMs: PATIENCE_MS })));
      return isAnswered === isAllowed
        ? []
        : [`${from} -> ${to}:${port} is ${isAnswered ? "allowed" : "denied"}`];
    }),
  );
  return answers.flat();
}

describeOnKernel("network policies", () => {
  beforeAll(async () => {
    world = await PolicyWorld.start(
      NAMESPACES.flatMap((namespace, at) =>
        PODS.map((name, one) => ({ namespace, name, node: (at + one) % 2 === 0 ? 1 : 2 })),
      ),
    );
    world.serveSctp();
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it.each([...POLICY_CASES, ...CLUSTER_CASES].map((it) => [it.name, it] as const))("%s", async (_, one) => {
    const { policies, clusterPolicies = [], allows, change, verb } = one;
    await world.setPolicies(
      typeof policies === "function" ? policies(world) : policies,
      typeof clusterPolicies === "function" ? clusterPolicies(world) : clusterPolicies,
    );
    expect(await differences(allows, verb)).toEqual([]);
    if (change === undefined) return;
    for (const [id, labels] of Object.entries(change.labels ?? {})) await world.label(id, labels);
    for (const [name, labels] of Object.entries(change.namespaceLabels ?? {}))
      await world.labelNamespace(name, labels);
    await world.setPolicies(change.policies, change.clusterPolicies);
    expect(await differences(change.allows, verb)).toEqual([]);
  });
});
