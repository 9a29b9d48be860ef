import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { INTERNAL_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { WEIGHT_ANNOTATION } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_EXPORTS,
  type FleetServiceExport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { deploy, exportBy, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { said } from "./world.ts";

/** A member whose exports an original agent reported on before ours took over: it wrote their status by updates. */

const ORIGINAL = "member-net-controller-manager";
let fleet: TestFleet;
const east = () => fleet.client("east");
beforeAll(async () => {
  fleet = await startFleet({ members: ["east"] });
  await fleet.agents.get("east")?.stop();
  for (const name of ["deleted", "weightless", "leaving"]) {
    await deploy(east(), { name, addresses: ["10.1.0.1"] });
    await exportBy("fleet", east(), { name });
    await reportAsOriginal(name);
  }
  fleet.agents.get("east")?.start();
  await eventually(fleet.client("hub"), INTERNAL_SERVICE_EXPORTS, (all) => all.length === 3);
}, 90_000);
afterAll(() => fleet[Symbol.asyncDispose]());

async function reportAsOriginal(name: string): Promise<void> {
  const object = await east().get(FLEET_SERVICE_EXPORTS, objectKey("work", name));
  const condition = {
    status: "True" as const,
    reason: "ServiceIsValid",
    message: "by the agent before",
    observedGeneration: 1,
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const conditions = [
    { ...condition, type: "Valid" },
    {
      ...condition,
      type: "Conflict",
      status: "Unknown" as const,
      reason: "ServicePendingConflictResolution",
    },
  ];
  const reported: FleetServiceExport = { ...object, status: { conditions } };
  await east().update(FLEET_SERVICE_EXPORTS, reported, { subresource: "status", fieldManager: ORIGINAL });
}

const untilWithdrawn = (name: string) =>
  eventually(fleet.client("hub"), INTERNAL_SERVICE_EXPORTS, (all) =>
    all.every((it) => it.metadata.name !== `work-${name}`),
  );
const untilSaid = (name: string, conditions: readonly string[]) =>
  eventuallyOne(
    east(),
    FLEET_SERVICE_EXPORTS,
    objectKey("work", name),
    (it) => said(it.status?.conditions).join() === conditions.join(),
  );

describe("an export that another agent reported on", () => {
  it("is withdrawn when its Service is deleted, and no condition of the other agent stays in part", async () => {
    await east().delete(SERVICES, objectKey("work", "deleted"));
    await untilWithdrawn("deleted");
    await untilSaid("deleted", ["Valid=False:ServiceNotFound"]);
  });

  it("is withdrawn at weight 0", async () => {
    const object = await east().get(FLEET_SERVICE_EXPORTS, objectKey("work", "weightless"));
    const metadata = { annotations: { [WEIGHT_ANNOTATION]: "0" } };
    await east().mergePatch(FLEET_SERVICE_EXPORTS, keyOf(object), { metadata });
    await untilWithdrawn("weightless");
  });

  it("does not keep its cluster from leaving", async () => {
    const parties = { name: "east", hub: fleet.hub.config, member: fleet.members.get("east")!.config };
    await leaveFleet(
      { ...parties, timeoutMs: PATIENCE_MS },
      testDeps("leave"),
      AbortSignal.timeout(PATIENCE_MS + 5000),
    );
    await untilWithdrawn("leaving");
    const object = await east().get(FLEET_SERVICE_EXPORTS, objectKey("work", "leaving"));
    expect(said(object.status?.conditions).some((it) => it.startsWith("Conflict"))).toBe(false);
  });
});
