import { describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { changeKey, followFleet } from "./follow-fleet.ts";
import { HUB_LEASE, type HubProgram } from "./hub-program.ts";
import { summarizeFleet } from "./status.ts";

const lease = (second: number): Lease => ({
  metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: splitKey(HUB_LEASE).name },
  spec: { holderIdentity: "hub-0", renewTime: `2026-01-01T00:00:0${second}.000000Z` },
});
const RUNNING: HubProgram = { state: "Running", holder: "hub-0", renewed: "2026-01-01T00:00:00.000000Z" };

async function followed(checkHub: () => Promise<void> = async () => {}) {
  const clock = new FakeClock();
  const hub = new FakeKubeClient();
  hub.seed(LEASES, lease(0));
  const stop = new AbortController();
  const seen: { readonly members: readonly string[]; readonly hub: string; readonly key: string }[] = [];
  const deps = { ...systemDeps(silentLogger), clock };
  const done = followFleet(
    hub,
    { program: RUNNING, checkHub },
    (snapshot, program) =>
      seen.push({
        members: snapshot.members.map((it) => it.metadata.name),
        hub: program.state,
        key: changeKey({ hub: program, ...summarizeFleet(snapshot) }),
      }),
    { deps, signal: stop.signal },
  ).catch((error: unknown) => error);
  await clock.advance(1000);
  return { clock, hub, seen, stop, done };
}

describe("a fleet that is followed", () => {
  it("is shown at once, and again when a member appears", async () => {
    const { clock, hub, seen, stop, done } = await followed();
    expect(seen.at(-1)).toMatchObject({ members: [], hub: "Running" });
    await hub.create(MEMBER_CLUSTERS, { metadata: { name: "a" }, spec: {} } as never);
    await clock.advance(1000);
    expect(seen.at(-1)).toMatchObject({ members: ["a"], hub: "Running" });
    stop.abort();
    await done;
  });

  it("does not differ when a Lease is renewed, and says when that of the hub is not", async () => {
    const { clock, hub, seen, stop, done } = await followed();
    for (const second of [1, 2]) {
      await clock.advance(8000);
      await hub.mergePatch(LEASES, HUB_LEASE, lease(second));
      await clock.advance(1000);
      expect(seen.at(-1)?.hub).toBe("Running");
    }
    expect(new Set(seen.map((it) => it.key)).size).toBe(1);
    for (let second = 0; second < 22; second++) await clock.advance(1000);
    expect(seen.at(-1)?.hub).toBe("Dead");
    await hub.mergePatch(LEASES, HUB_LEASE, lease(3));
    await clock.advance(1000);
    expect(seen.at(-1)?.hub).toBe("Running");
    stop.abort();
    await done;
  });

  it("ends with the answer where the API server of the hub is gone", async () => {
    const { clock, done } = await followed(() => Promise.reject(new Error("the hub does not answer")));
    for (let second = 0; second < 22; second++) await clock.advance(1000);
    expect(await done).toMatchObject({ message: "the hub does not answer" });
  });
});
