import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_EXPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { deploy, exportBy, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { ACCEPTED, FOUND, giveAddresses, MEMBERS, said, Scene } from "./world.ts";

/** What fleet-networking's end-to-end tests of membership assert; what leaving does to users' objects is ours. */

let fleet: TestFleet;
let scene: Scene;
const cloud = new AsyncDisposableStack();
const mailbox = objectKey("fleet-member-member-1", "member-1");

beforeAll(async () => {
  fleet = await startFleet({ members: MEMBERS });
  cloud.use(giveAddresses(fleet.client("member-1")));
  scene = await Scene.create(fleet, "my-ns");
});
afterAll(async () => {
  await cloud.disposeAsync();
  await fleet[Symbol.asyncDispose]();
});

const agents = ({ status }: InternalMemberCluster): string[] =>
  (status?.agentStatus ?? []).map((it) => `${it.type} ${said(it.conditions).join()}`).toSorted();
const untilAgents = (expected: string) =>
  eventuallyOne(fleet.client("hub"), INTERNAL_MEMBER_CLUSTERS, mailbox, (it) =>
    ["MultiClusterServiceAgent", "ServiceExportImportAgent"].every((agent) =>
      agents(it).includes(`${agent} ${expected}`),
    ),
  );
const parties = () => ({
  name: "member-1",
  hub: fleet.hub.config,
  member: fleet.members.get("member-1")!.config,
});
const inactive = "fairlead.dev/Active=False:LeftFleet";

describe("a member", () => {
  it("has joined when both agents have reported it, and keeps reporting it", async () => {
    const first = await untilAgents("Joined=True:AgentJoined");
    const received = (it: InternalMemberCluster): string =>
      it.status?.agentStatus?.find((one) => one.type === "MultiClusterServiceAgent")?.lastReceivedHeartbeat ??
      "";
    expect(received(first)).not.toBe("");
    // Theirs compare it, too.
    const messages = first.status?.agentStatus?.flatMap((it) => it.conditions?.map((one) => one.message));
    expect(messages).toEqual(["", ""]);
    await eventuallyOne(
      fleet.client("hub"),
      INTERNAL_MEMBER_CLUSTERS,
      mailbox,
      (it) => received(it) > received(first),
    );
  });

  it("A10: that is asked to leave withdraws everything, keeps users' objects and marks them inactive; new ones have no effect", async () => {
    const client = fleet.client("member-1");
    const { namespace } = scene;
    await deploy(client, { namespace, name: "app", addresses: ["10.1.0.1"] });
    await exportBy("fleet", client, { namespace, name: "app" });
    await exportBy("mcs", client, { namespace, name: "app" });
    await scene.importBy("member-1");
    await scene.untilExport("member-1", ACCEPTED);
    const derived = scene.derivedName(await scene.untilServed("member-1"));
    const hasLeft = untilAgents("Joined=False:AgentLeft");
    await leaveFleet(parties(), testDeps("leave"), AbortSignal.timeout(PATIENCE_MS));
    await hasLeft;
    const left = await client.get(FLEET_SERVICE_EXPORTS, scene.key("app"));
    expect(said(left.status?.conditions)).toEqual(["Valid=True:ServiceIsValid", inactive]);
    const other = await client.get(MCS_SERVICE_EXPORTS, scene.key("app"));
    expect(said(other.status?.conditions)).toEqual(["Ready=False:Pending", "Valid=True:Valid", inactive]);
    const balancer = await client.get(MULTI_CLUSTER_SERVICES, scene.key("app"));
    expect(said(balancer.status?.conditions)).toEqual(["Valid=Unknown:UnknownServiceImport", inactive]);
    expect(balancer.status?.loadBalancer?.ingress).toBeUndefined();
    expect(await client.find(SERVICES, objectKey("fleet-system", derived))).toBeUndefined();
    await eventually(client, FLEET_SERVICE_IMPORTS, (all) => all.length === 0);
    const hub = fleet.client("hub");
    expect((await hub.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-member-1" })).items).toEqual(
      [],
    );
    await deploy(client, { namespace, name: "late", addresses: ["10.1.0.2"] });
    await exportBy("fleet", client, { namespace, name: "late" });
    expect((await client.get(FLEET_SERVICE_EXPORTS, scene.key("app"))).status).toEqual(left.status);
    expect(await client.find(FLEET_SERVICE_IMPORTS, scene.key("app"))).toBeUndefined();
  });

  it("A10: that joins again exports and imports the existing objects again", async () => {
    const options = { ...parties(), heartbeatSeconds: 1, timeoutMs: PATIENCE_MS };
    await joinCluster(options, testDeps("join"), AbortSignal.timeout(PATIENCE_MS));
    await untilAgents("Joined=True:AgentJoined");
    for (const name of ["app", "late"]) await scene.untilExport("member-1", ACCEPTED, name);
    const served = await scene.untilServed("member-1");
    expect(said(served.status?.conditions)).toEqual(FOUND);
    await scene.untilBehind("member-1", scene.derivedName(served), ["10.1.0.1"]);
  });
});
