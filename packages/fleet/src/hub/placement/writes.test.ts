import { afterEach, beforeEach, expect, it } from "vitest";
import { CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { fakeMember } from "#placement/scheduling/cluster.fake.ts";
import { KindTable } from "#placement/selection/kinds.ts";
import { FakeFleet, SHOP } from "./fleet.fake.ts";
import { createRollout } from "./rollout/controller.ts";
import { createSchedulers } from "./scheduler/controller.ts";
import { createSelecting } from "./selecting.ts";
import { createWorks } from "./works/controller.ts";

/** All controllers that carry a placement out, and what they write together. */

let fleet: FakeFleet;
let stack: AsyncDisposableStack;
beforeEach(() => {
  fleet = new FakeFleet();
  stack = new AsyncDisposableStack();
});
afterEach(async () => {
  await fleet.stop();
  await stack.disposeAsync();
});

const SERVED = new KindTable([
  { group: "", versions: [{ version: "v1", kinds: [NAMESPACES, CONFIG_MAPS] }] },
]);

async function startHub(...clusters: readonly string[]): Promise<void> {
  const { client } = fleet;
  for (const it of clusters) {
    client.seed(MEMBER_CLUSTERS, fakeMember(it));
    client.seed(NAMESPACES, { metadata: { name: mailboxOf(it) } });
  }
  client.seed(NAMESPACES, SHOP);
  await fleet.start(
    (parts) => {
      const selecting = createSelecting(parts, { discover: () => Promise.resolve(SERVED) });
      stack.use(selecting);
      return selecting.controllers;
    },
    (parts) => {
      const namespaces = stack.use(createInformer(client, NAMESPACES, {}, parts.deps));
      const events = createEventRecorder(client, "test", parts.deps);
      return stack.use(createSchedulers({ ...parts, namespaces, events })).controllers;
    },
    createRollout,
    createWorks,
  );
  await fleet.settle();
}

it.each([1, 10])(
  "a placement on %i clusters that answer at once is one write of each object and each status",
  async (count) => {
    const clusters = Array.from({ length: count }, (_, at) => `c${at}`);
    await startHub(...clusters);
    fleet.client.writes.length = 0;
    fleet.placement({ resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }] });
    await fleet.settle();
    for (const it of clusters) await fleet.answer(it);
    await fleet.settle();
    const [placement] = fleet.client.objects(fleet.scope.placements);
    expect(isConditionTrue(placement?.status?.conditions, "ClusterResourcePlacementAvailable")).toBe(true);
    const counts: Record<string, number> = {};
    for (const { resource, subresource } of fleet.client.writes) {
      const name = subresource === undefined ? resource : `${resource}/${subresource}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    expect(counts).toEqual({
      // The finalizers of both controllers.
      clusterresourceplacements: 1,
      clusterresourcesnapshots: 1,
      clusterschedulingpolicysnapshots: 1,
      "clusterschedulingpolicysnapshots/status": 1,
      clusterresourcebindings: count,
      works: count,
      // The members' answers.
      "works/status": count,
      "clusterresourcebindings/status": count,
      "clusterresourceplacements/status": 1,
    });
  },
);
