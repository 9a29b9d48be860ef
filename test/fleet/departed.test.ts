/** A member that is gone for good, with everything that it and legacy agents left in its mailbox. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FINALIZERS } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { watchSight } from "../support/sight.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"], leaseSeconds: 2, forceDeleteSeconds: 1 });
  await ensureNamespace(fleet.client("c"), "work");
  for (const [at, name] of ["a", "b"].entries()) {
    await deploy(fleet.client(name), { addresses: [`10.${at + 1}.0.1`] });
    await exportBy("mcs", fleet.client(name));
    await exportBy("fleet", fleet.client(name));
  }
  await fleet.client("b").create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: "work", name: "hello" },
    spec: { serviceImport: { name: "hello" } },
  });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const HELD: readonly (readonly [Resource, string])[] = [
  [INTERNAL_SERVICE_EXPORTS, FINALIZERS.internalServiceExport],
  [INTERNAL_SERVICE_IMPORTS, FINALIZERS.internalServiceImport],
  [ENDPOINT_SLICE_EXPORTS, FINALIZERS.endpointSliceExport],
  [ENDPOINT_SLICE_IMPORTS, FINALIZERS.endpointSliceImport],
];

/** As legacy agents leave them: no agent remains that would remove them. */
async function leaveFinalizers(mailbox: string): Promise<void> {
  const hub = fleet.client("hub");
  for (const [of, finalizer] of HELD)
    for (const it of (await hub.list(of, { namespace: mailbox })).items)
      await hub.mergePatch(of, keyOf(it), { metadata: { finalizers: [finalizer, "example.com/forgotten"] } });
}

it.each([
  ["a", "deleted as an object, when its time to withdraw is over", false],
  ["b", "taken out by force, at once", true],
])(
  "member %s, %s, leaves nothing: its mailbox empties, and importers drop its endpoints",
  async (name, _, byForce) => {
    await using sight = watchSight(fleet.client("c"));
    const mailbox = `fleet-member-${name}`;
    const hub = fleet.client("hub");
    const own = name === "a" ? "10.1.0.1" : "10.2.0.1";
    await sight.until((it) => it.imported.includes(own));
    if (name === "b") await eventually(hub, INTERNAL_SERVICE_IMPORTS, (all) => all.length === 1);
    await fleet.agents.get(name)!.stop();
    await leaveFinalizers(mailbox);
    if (byForce) {
      const options = { name, hub: fleet.hub.config, member: undefined, force: true };
      await leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS));
    } else await hub.delete(MEMBER_CLUSTERS, objectKey(undefined, name));
    await sight.until((it) => !it.imported.includes(own));
    await eventually(hub, MEMBER_CLUSTERS, (all) => all.every((it) => it.metadata.name !== name));
    await eventually(hub, NAMESPACES, (all) => all.every((it) => it.metadata.name !== mailbox));
    for (const [of] of HELD) expect((await hub.list(of, { namespace: mailbox })).items).toEqual([]);
    for (const it of (await hub.list(FLEET_SERVICE_IMPORTS)).items) {
      expect(JSON.stringify(it.metadata.annotations ?? {})).not.toContain(mailbox);
      expect(it.status?.clusters?.map((one) => one.cluster) ?? []).not.toContain(name);
    }
  },
);
