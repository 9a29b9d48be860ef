/** The last exporter of a service, which leaves and is back at once, many times. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { deploy, ensureNamespace, exportBy, startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { watchSight } from "../support/sight.ts";

const HELLO = objectKey("work", "hello");
let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "c"] });
  await ensureNamespace(fleet.client("c"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  for (const api of ["mcs", "fleet"] as const) await exportBy(api, fleet.client("a"));
  await fleet.client("c").create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: "work", name: "hello" },
    spec: { serviceImport: { name: "hello" } },
  });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const withdraw = () =>
  Promise.all([MCS_SERVICE_EXPORTS, FLEET_SERVICE_EXPORTS].map((of) => fleet.client("a").delete(of, HELLO)));

it("keeps the address of the import, and the Service behind the load balancer, through ten quick returns", async () => {
  await using sight = watchSight(fleet.client("c"));
  const whole = (): Promise<void> =>
    sight.until((it) => it.imported === "10.1.0.1" && it.balanced === "10.1.0.1" && it.derived !== "");
  await whole();
  const began = sight.now;
  const balancers = await fleet.client("c").list(SERVICES, { namespace: "fleet-system" });
  for (let time = 0; time < 10; time += 1) {
    await withdraw();
    // Half of the times it is back before, half after the hub took note.
    if (time % 2 === 1)
      await eventually(fleet.client("hub"), INTERNAL_SERVICE_EXPORTS, (all) => all.length === 0);
    for (const api of ["mcs", "fleet"] as const) await exportBy(api, fleet.client("a"));
    await whole();
  }
  expect(new Set(sight.since(began).map((it) => it.derived))).toEqual(new Set([began.derived]));
  const after = await fleet.client("c").list(SERVICES, { namespace: "fleet-system" });
  expect(after.items.map((it) => it.metadata.uid)).toEqual(balancers.items.map((it) => it.metadata.uid));
});

it("leaves nothing behind if it does not return", async () => {
  await using sight = watchSight(fleet.client("c"));
  await sight.until((it) => it.imported === "10.1.0.1");
  await withdraw();
  await sight.until((it) => it.imported === "" && it.balanced === "" && it.derived === "");
  await eventually(fleet.client("c"), MCS_SERVICE_IMPORTS, (all) => all.length === 0);
  await eventually(fleet.client("hub"), IMPORTED_SERVICES, (all) => all.length === 0, {
    namespace: VIEW_NAMESPACE,
  });
  await eventually(fleet.client("hub"), FLEET_SERVICE_IMPORTS, (all) => all.length === 0);
  const gone = sight.now;
  // A change of another object shows that all programs have caught up.
  await deploy(fleet.client("a"), { name: "other", addresses: ["10.1.0.7"] });
  await exportBy("mcs", fleet.client("a"), { name: "other" });
  await eventually(fleet.client("c"), MCS_SERVICE_IMPORTS, (all) => all.length === 1);
  expect(sight.since(gone).every((it) => it.imported === "")).toBe(true);
});
