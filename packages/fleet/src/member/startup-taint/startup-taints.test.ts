import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { describeBoot } from "#domain/policy-at-boot.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { StartupTaints } from "./startup-taints.ts";

const KEY = objectKey(undefined, "n1");
const OTHER = "example.com/other";

let stack: AsyncDisposableStack;
let clock: FakeClock;
let client: FakeKubeClient;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  clock = new FakeClock();
  client = stack.use(new FakeKubeClient(clock));
  client.seed(NODES, {
    metadata: { name: "n1" },
    spec: { taints: [{ key: OTHER, effect: "NoSchedule" }] },
    status: { nodeInfo: { bootID: "b1" }, conditions: [describeBoot({ boot: "b1" })] },
  });
  client.seed(MESH_NETWORKS, {
    metadata: {
      namespace: FLEET_SYSTEM_NAMESPACE,
      name: "flat",
      labels: { [MANAGED_BY_LABEL]: MANAGED_BY },
    },
    spec: { mode: "flat" },
  });
  const running = stack.use(new StartupTaints(client, { ...systemDeps(silentLogger), clock }));
  await running.start(AbortSignal.timeout(60_000));
});
afterEach(() => stack.disposeAsync());

async function taints(): Promise<readonly string[]> {
  await clock.advance(1000);
  const { spec } = await client.get(NODES, KEY);
  return (spec?.taints ?? []).map((it) => it.key);
}

const status = (change: object): Promise<unknown> =>
  client.mergePatch(NODES, KEY, { status: change }, { subresource: "status" });

it("a node has the taint from its boot until its agent has written its policies", async () => {
  expect(await taints()).toEqual([OTHER]);
  await status({ nodeInfo: { bootID: "b2" } });
  expect(await taints()).toEqual([OTHER, "fairlead.dev/agent-not-ready"]);
  await status({ conditions: [describeBoot({ boot: "b2" })] });
  expect(await taints()).toEqual([OTHER]);
});

it("a node loses the taint when the cluster leaves the network", async () => {
  await status({ nodeInfo: { bootID: "b2" } });
  expect(await taints()).toHaveLength(2);
  await client.delete(MESH_NETWORKS, objectKey(FLEET_SYSTEM_NAMESPACE, "flat"));
  expect(await taints()).toEqual([OTHER]);
});

it("a node that its agent reports on again and again is not written", async () => {
  await taints();
  const conditions = [{ ...describeBoot({ boot: "b1" }), lastHeartbeatTime: "2026-01-01T00:00:00Z" }];
  const written = await status({ conditions });
  await taints();
  expect(await client.get(NODES, KEY)).toEqual(written);
});
