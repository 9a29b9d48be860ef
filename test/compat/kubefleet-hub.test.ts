/** Our member, "east", with a hub of KubeFleet alone, which serves no kinds of services. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { MEMBER_ACCESS, MEMBER_WORK_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { configAs } from "../support/access.ts";
import {
  aborted,
  connectProgram,
  ensureNamespace,
  Restartable,
  startCluster,
  type TestCluster,
  testDeps,
} from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";
import { enroll } from "./original-hub.ts";

const AGENT = { name: "agent-of-east", cluster: [], system: [] };
const MEMBER = objectKey("fleet-member-east", "east");
const stack = new AsyncDisposableStack();
let hub: TestCluster;
let east: TestCluster;

beforeAll(async () => {
  hub = stack.use(await startCluster("hub", [AGENT]));
  east = stack.use(await startCluster("east", [MEMBER_ACCESS, MEMBER_WORK_ACCESS]));
  const crds = HUB_CRDS.filter((it) => /^(cluster|placement)\.kubernetes-fleet\.io$/.test(it.spec.group));
  const signal = AbortSignal.timeout(20_000);
  await installCrds(hub.client, { crds, fieldManager: "test" }, testDeps("test"), signal);
  await installCrds(east.client, { crds: MEMBER_CRDS, fieldManager: "test" }, testDeps("test"), signal);
  await ensureNamespace(east.client, "n");
  await enroll(hub.client, "east", `test:${AGENT.name}`);
  const agent = stack.use(
    new Restartable(async (stopping) => {
      const deps = testDeps("east");
      await using local = connectProgram(configAs(MEMBER_ACCESS, east.config), deps);
      await using toHub = connectProgram(configAs(AGENT, hub.config), deps);
      await using _member = await startMember(
        {
          cluster: "east",
          local,
          hub: toHub,
          deps,
          placement: true,
          probe: () => Promise.resolve("connected"),
        },
        stopping,
      );
      await aborted(stopping);
    }),
  );
  agent.start();
});
afterAll(() => stack.disposeAsync());

it("joins, applies what is placed, and leaves", async () => {
  const agentIs = (status: "True" | "False") =>
    eventuallyOne(
      hub.client,
      INTERNAL_MEMBER_CLUSTERS,
      MEMBER,
      (it) =>
        it.status?.agentStatus?.some(
          ({ type, conditions }) =>
            type === "MemberAgent" &&
            conditions?.some((one) => one.type === "Joined" && one.status === status) === true,
        ) === true,
    );
  await agentIs("True");
  const configMap = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: "n", name: "c" },
    data: { a: "1" },
  };
  await hub.client.create(WORKS, {
    metadata: { namespace: "fleet-member-east", name: "w" },
    spec: { workload: { manifests: [configMap] } },
  });
  await eventuallyOne(hub.client, WORKS, objectKey("fleet-member-east", "w"), (it) =>
    isConditionTrue(it.status?.conditions, "Applied"),
  );
  expect((await east.client.get(CONFIG_MAPS, objectKey("n", "c"))).data).toEqual({ a: "1" });
  await hub.client.delete(WORKS, objectKey("fleet-member-east", "w"));
  await hub.client.mergePatch(INTERNAL_MEMBER_CLUSTERS, MEMBER, { spec: { state: "Leave" } });
  await agentIs("False");
});
