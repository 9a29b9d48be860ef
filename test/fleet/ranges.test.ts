import { expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  GRANTED_CIDRS_ANNOTATION,
  POD_RANGES,
  SERVICE_RANGES,
} from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { PATIENCE_MS, startFleet, testDeps } from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";

it("rejects clusters with the range of a node that a member added after its join", async () => {
  await using fleet = await startFleet({ members: ["a", "b"], join: ["a"] });
  const hub = fleet.client("hub");
  const podCIDRs = ["10.77.0.0/24", "fd77::/64"];
  for (const name of ["a", "b"])
    await fleet
      .client(name)
      .create(NODES, { metadata: { name: "later" }, spec: { podCIDR: "10.77.0.0/24", podCIDRs } });
  const { metadata, status } = await eventuallyOne(
    hub,
    MEMBER_CLUSTERS,
    objectKey(undefined, "a"),
    (it) => it.status?.properties?.[POD_RANGES] !== undefined,
  );
  expect(status?.properties?.[POD_RANGES]?.value).toBe("10.77.0.0/24,fd77::/64");
  expect(status?.properties?.[SERVICE_RANGES]?.value).toMatch(/^\d/);
  // A report gives no right.
  expect(metadata.annotations).not.toHaveProperty([POD_RANGES]);
  expect(metadata.annotations).not.toHaveProperty([GRANTED_CIDRS_ANNOTATION]);
  const joining = joinCluster(
    {
      name: "b",
      hub: fleet.hub.config,
      member: fleet.members.get("b")!.config,
      timeoutMs: PATIENCE_MS,
    },
    testDeps("join"),
    AbortSignal.timeout(PATIENCE_MS),
  );
  await expect(joining).rejects.toThrow("pods here have 10.77.0.0/24, pods of a 10.77.0.0/24");
});
