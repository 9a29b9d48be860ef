import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { deploy, ensureNamespace, exportBy, startFleet, type TestFleet } from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";

const hello = objectKey("work", "hello");
let fleet: TestFleet;

beforeAll(async () => {
  fleet = await startFleet({
    members: ["six", "four"],
    serviceRanges: { six: ["fd00:6::/112"], four: ["10.96.0.0/16"] },
  });
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe("clusters that have no IP family in common", () => {
  it("are reported if a cluster cannot use a service, or would reach only some of the pods", async () => {
    await ensureNamespace(fleet.client("four"), "work");
    await deploy(fleet.client("six"), { addresses: ["fd00:1::1"] });
    await exportBy("mcs", fleet.client("six"));
    const ready = (name: string, status: string) =>
      eventuallyOne(
        fleet.client(name),
        MCS_SERVICE_IMPORTS,
        hello,
        (it) => findCondition(it.status?.conditions, "Ready")?.status === status,
      );
    expect((await ready("six", "True")).spec?.ipFamilies).toEqual(["IPv6"]);
    const refused = await ready("four", "False");
    expect(findCondition(refused.status?.conditions, "Ready")?.reason).toBe("IPFamilyNotSupported");
    expect(refused.spec?.ips).toBeUndefined();

    await deploy(fleet.client("four"), { addresses: ["10.1.0.1"] });
    await exportBy("mcs", fleet.client("four"));
    for (const name of ["six", "four"])
      await eventuallyOne(
        fleet.client(name),
        MCS_SERVICE_EXPORTS,
        hello,
        (it) => findCondition(it.status?.conditions, "Conflict")?.reason === "IPFamilyConflict",
      );
  });
});
