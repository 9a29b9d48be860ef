import { beforeEach, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { INTERNAL_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { checkHub } from "./checks/hub.ts";
import { findPresent } from "./join-present.ts";

const UID = "fairlead.dev/cluster-uid";
let clock: FakeClock;
let [hub, member]: FakeKubeClient[] = [];
beforeEach(() => {
  clock = new FakeClock();
  [hub, member] = [new FakeKubeClient(clock), new FakeKubeClient(clock)];
});
const deps = () => ({ clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics });
const { signal } = new AbortController();

interface Draft {
  readonly uid?: string;
  /** Unit: seconds. */
  readonly seenAgo?: number;
}

function cluster({ uid, seenAgo }: Draft = {}): MemberCluster {
  const status = (ago: number): NonNullable<MemberCluster["status"]> => ({
    agentStatus: [
      { type: "MemberAgent", lastReceivedHeartbeat: new Date(clock.now() - ago * 1000).toISOString() },
    ],
  });
  return {
    metadata: { name: "east", ...(uid === undefined ? {} : { annotations: { [UID]: uid } }) },
    spec: { identity: { kind: "User", name: "other" }, heartbeatPeriodSeconds: 60 },
    ...(seenAgo === undefined ? {} : { status: status(seenAgo) }),
  };
}

/** As the hub has it, for a cluster whose uid is "own". */
function find(...members: readonly MemberCluster[]): Promise<MemberCluster | undefined> {
  const sides = { hub: { who: "the hub", client: hub! }, member: { who: "cluster east", client: member! } };
  return findPresent({ name: "east", uid: "own", members, ...sides }, deps(), signal);
}

async function exported(uid: string): Promise<void> {
  const reference = { clusterId: "east", kind: "Service", namespace: "work", name: "web", uid };
  await hub!.create(INTERNAL_SERVICE_EXPORTS, {
    metadata: { namespace: "fleet-member-east", name: "work-web" },
    spec: {
      ports: [],
      serviceReference: { ...reference, resourceVersion: "1", generation: 1, namespacedName: "work/web" },
    },
  });
}

describe("a MemberCluster without a cluster UID", () => {
  it("is adopted if no agent ever reported for it", async () => {
    expect(await find(cluster())).toMatchObject({ metadata: { name: "east" } });
  });

  it("is adopted if no agent has reported for it for five of its heartbeat periods", async () => {
    expect(await find(cluster({ seenAgo: 301 }))).toBeDefined();
  });

  it("is refused while an agent reports for it, with the command that identifies the cluster", async () => {
    await expect(find(cluster({ seenAgo: 20 }))).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message:
        "MemberCluster east of the hub has no cluster UID and may belong to another cluster: an agent of an unidentified " +
        "cluster reported for it 20 s ago; if it is this cluster, run on the hub: " +
        "kubectl annotate membercluster east fairlead.dev/cluster-uid=own",
    });
  });

  it("is taken over all the same where a Service that it exported is this cluster's", async () => {
    const { metadata } = await member!.create(SERVICES, { metadata: { namespace: "work", name: "web" } });
    await exported(metadata.uid ?? "");
    expect(await find(cluster({ seenAgo: 20 }))).toBeDefined();
  });

  it("is refused if its exports are those of another cluster, however long it has been silent", async () => {
    await member!.create(SERVICES, { metadata: { namespace: "work", name: "web" } });
    await exported("of another");
    await expect(find(cluster())).rejects.toMatchObject({
      message: expect.stringContaining("services that it exported are not those of cluster east") as string,
    });
  });
});

describe("a MemberCluster with a cluster UID", () => {
  it("is this cluster's if the UID matches, even while an agent reports for it", async () => {
    expect(await find(cluster({ uid: "own", seenAgo: 1 }))).toBeDefined();
    await expect(find(cluster({ uid: "other" }))).rejects.toMatchObject({
      message: expect.stringContaining("another cluster named east") as string,
    });
  });
});

describe("the check of the hub's program", () => {
  const key = objectKey("fleet-system", "fairlead-hub");
  const lease = (renewTime: string, holderIdentity = "hub-1") => ({
    metadata: { namespace: "fleet-system", name: "fairlead-hub" },
    spec: { holderIdentity, renewTime },
  });
  const check = (...members: readonly MemberCluster[]) =>
    checkHub({ who: "the hub", client: hub! }, members, deps(), signal);
  const joined: MemberCluster = {
    ...cluster(),
    status: {
      conditions: [{ type: "Joined", status: "True", reason: "r", message: "", lastTransitionTime: "" }],
    },
  };

  it("is content once it sees its Lease renewed", async () => {
    await hub!.create(LEASES, lease("1"));
    const found = check();
    await clock.advance(0);
    await hub!.mergePatch(LEASES, key, { spec: { renewTime: "2" } });
    expect(await found).toMatchObject({ status: "ok", message: '"fairlead hub" runs on the hub, as hub-1' });
  });

  it.each(["hub-1", ""])("fails if the Lease is not being renewed (held by %j)", async (holder) => {
    await hub!.create(LEASES, lease("2026-01-01T00:00:00.000000Z", holder));
    const found = check();
    await clock.advance(10_000);
    expect(await found).toMatchObject({
      status: "failed",
      message: expect.stringContaining(
        '"fairlead hub" is not running on the hub: Lease fleet-system/fairlead-hub is not being renewed (last renewal: 2026-01-01',
      ) as string,
    });
  });

  it("fails where members have joined by another program", async () => {
    await hub!.create(MEMBER_CLUSTERS, joined);
    expect(await check(joined)).toMatchObject({
      status: "failed",
      message: expect.stringContaining(
        "although east has joined there: another program manages its members",
      ) as string,
    });
  });

  it("is unknown without a Lease: the hub may run without leader election", async () => {
    expect((await check()).status).toBe("unknown");
    await hub!.create(NAMESPACES, { metadata: { name: "fleet-view-default" } });
    expect((await check(joined)).status).toBe("unknown");
  });
});
