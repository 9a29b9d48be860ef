/** Network policies while thousands of pods come, change and go: packets at both sides of the verdict, and the table at the end. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { byText } from "@fairlead/base/text.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { Chance } from "@fairlead/fleet/policy/testing/chance.fake.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { isFull } from "../support/sample.ts";
import { PolicyWorld } from "./policy-world.ts";

const COUNT = isFull ? 2000 : 200;
/** Of which so many are on the node whose table is looked at. */
const ON_NODE = 100;
/** Changes, and how many of them come between two questions. */
const CHANGES = 4 * COUNT;
const BATCH = 50;
const ROLES = ["friend", "foe", "other"];
const TIMEOUT_MS = 600_000;

let world: PolicyWorld;

function policy(name: string, spec: NetworkPolicy["spec"]): NetworkPolicy {
  return { metadata: { namespace: "x", name }, spec: spec ?? {} };
}

const role = (name: string) => ({ matchLabels: { role: name } });

const POLICIES: readonly NetworkPolicy[] = [
  policy("server", {
    podSelector: role("server"),
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: role("friend") }], ports: [{ port: 80 }] }],
  }),
  // Of pods that come and go themselves.
  policy("others", {
    podSelector: role("other"),
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: [{ podSelector: role("foe") }] }],
    egress: [{ to: [{ podSelector: role("server") }] }],
  }),
];

function podOf(number: number, chance: Chance): Pod {
  const isOnNode = number < ON_NODE;
  const [high, low] = [number >> 8, number & 255];
  const podIPs = isOnNode
    ? [{ ip: `10.244.1.${100 + number}` }, { ip: `fd00:244:0:1::${100 + number}` }]
    : [{ ip: `10.245.${high}.${low}` }, { ip: `fd00:245::${high}:${low}` }];
  return {
    metadata: { namespace: "x", name: `churn-${number}`, labels: { role: chance.one(ROLES) } },
    spec: { nodeName: isOnNode ? "n1" : "n2", containers: [{ name: "c", image: "i" }] },
    status: { phase: "Running", podIPs },
  };
}

/** The table of the first node without the handles of what is in it. */
async function lines(): Promise<readonly string[]> {
  const text = (await world.table(1)).replaceAll(/ # handle \d+/g, "");
  return text.split("\n").toSorted(byText);
}

describeOnKernel("policies", () => {
  beforeAll(async () => {
    world = await PolicyWorld.start([
      { namespace: "x", name: "server", node: 1, labels: { role: "server" } },
      { namespace: "x", name: "friend", node: 2, labels: { role: "friend" } },
      { namespace: "x", name: "foe", node: 1, labels: { role: "foe" } },
    ]);
    await world.setPolicies(POLICIES);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it(
    `give each pod its verdicts while ${COUNT} others come, change and go, and leave nothing of them`,
    { timeout: TIMEOUT_MS },
    async () => {
      const before = await lines();
      const chance = new Chance(7);
      const present = new Set<number>();
      const change = async (): Promise<void> => {
        const number = chance.int(COUNT);
        const key = objectKey("x", `churn-${number}`);
        if (!present.has(number)) {
          present.add(number);
          world.client.seed(PODS, podOf(number, chance));
        } else if (chance.is(0.3)) {
          present.delete(number);
          await world.client.delete(PODS, key);
        } else
          await world.client.mergePatch(PODS, key, { metadata: { labels: { role: chance.one(ROLES) } } });
      };

      const denials: boolean[] = [];
      for (let at = 0; at < CHANGES; at += BATCH) {
        // The friend is asked for longer than the foe: what is late is not denied.
        const asked = [
          world.asks("x/friend", "x/server", { port: 80, timeoutMs: 5000 }),
          world.asks("x/foe", "x/server", { port: 80 }),
        ];
        for (let count = 0; count < BATCH; count += 1) await change();
        const [friend, foe] = await Promise.all(asked);
        expect({ at, friend }).toEqual({ at, friend: true });
        denials.push(foe === false);
      }
      expect(denials).not.toContain(false);

      await world.settled();
      const during = await lines();
      expect(during.join("\n")).toContain("10.245.");
      // What came change by change is what an agent makes of it at once.
      await world.stopAgent(1);
      await world.nft(1, "delete", "table", "inet", "fairlead-policy");
      await world.startAgent(1);
      expect(await lines()).toEqual(during);

      for (const number of present) await world.client.delete(PODS, objectKey("x", `churn-${number}`));
      await world.settled();
      expect(await lines()).toEqual(before);
    },
  );
});
