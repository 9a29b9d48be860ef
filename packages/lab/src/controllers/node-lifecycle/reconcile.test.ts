import { beforeEach, describe, expect, it } from "vitest";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NODES, type Pod, PODS, type Taint } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { microTimestamp } from "@fairlead/kube/objects/conditions.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import { createLabInformers } from "../informers.ts";
import { nodeLifecycleController } from "./reconcile.ts";

const nodeKey = objectKey(undefined, "n1");
const leaseKey = objectKey("kube-node-lease", "n1");
const podKey = objectKey("work", "p1");
const forever = new AbortController().signal;

let clock: FakeClock;
let client: FakeKubeClient;
beforeEach(async () => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  client = new FakeKubeClient(clock);
  const ready = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" } as const;
  client.seed(NODES, {
    metadata: { name: "n1" },
    status: { conditions: [{ ...ready, reason: "KubeletReady" }] },
  });
  client.seed(LEASES, {
    metadata: { name: "n1", namespace: "kube-node-lease" },
    spec: { renewTime: microTimestamp(clock.now()) },
  });
  const pod: Pod = {
    metadata: { name: "p1", namespace: "work" },
    spec: { nodeName: "n1", containers: [] },
    status: { conditions: [ready] },
  };
  client.seed(PODS, pod);
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const informers = createLabInformers(client, deps);
  const events = createEventRecorder(client, "test", deps);
  const starting = nodeLifecycleController({ client, informers, events, nodeLeaseSeconds: 5 }, deps).start(
    forever,
  );
  await clock.advance(0);
  await starting;
});

const renew = () => client.mergePatch(LEASES, leaseKey, { spec: { renewTime: microTimestamp(clock.now()) } });
const node = () => client.objects(NODES)[0];
const pod = () => client.objects(PODS)[0];
const readiness = () => [node()?.status?.conditions?.[0]?.status, pod()?.status?.conditions?.[0]?.status];
const taints = (): string[] => (node()?.spec?.taints ?? []).map((it: Taint) => `${it.key}:${it.effect}`);

describe("a node", () => {
  it("that renews its lease is left alone", async () => {
    for (let second = 0; second < 30; second++) {
      await clock.advance(1000);
      await renew();
    }
    expect(readiness()).toEqual(["True", "True"]);
    expect(client.writes.every((it) => it.resource === "leases")).toBe(true);
  });

  it("that falls silent is not ready after its lease, nor are its pods, and is tainted", async () => {
    await clock.advance(4900);
    expect(readiness()).toEqual(["True", "True"]);
    await clock.advance(200);
    expect(readiness()).toEqual(["Unknown", "False"]);
    expect(node()?.status?.conditions?.[0]?.reason).toBe("NodeStatusUnknown");
    expect(taints()).toEqual([
      "node.kubernetes.io/unreachable:NoSchedule",
      "node.kubernetes.io/unreachable:NoExecute",
    ]);
  });

  it("that reports again loses its taints once its kubelet is ready", async () => {
    await clock.advance(6000);
    await renew();
    const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady" }];
    await client.mergePatch(NODES, nodeKey, { status: { conditions } }, { subresource: "status" });
    await clock.advance(0);
    expect(taints()).toEqual([]);
  });

  it("is not given up for the time in which the API server was away", async () => {
    await clock.advance(3000);
    client.stop();
    await clock.advance(20_000);
    client.restore();
    await clock.advance(1500);
    // Something else makes its node due before it had the time to renew its lease.
    await client.mergePatch(NODES, nodeKey, { metadata: { labels: { any: "label" } } });
    await clock.advance(0);
    expect(readiness()).toEqual(["True", "True"]);
    await renew();
    await clock.advance(3400);
    expect(readiness()).toEqual(["True", "True"]);
    await clock.advance(60_000);
    expect(readiness()).toEqual(["Unknown", "False"]);
  });

  it("stays ready when only the watch of leases is dead: its lease is read again", async () => {
    client.deafTo.add("leases");
    await clock.advance(4000);
    await renew();
    await clock.advance(2000);
    expect(readiness()).toEqual(["True", "True"]);
    await clock.advance(5100);
    expect(readiness()).toEqual(["Unknown", "False"]);
  });

  it("that reports Ready before it renews its lease counts as alive", async () => {
    await clock.advance(6000);
    expect(readiness()).toEqual(["Unknown", "False"]);
    const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady" }];
    await client.mergePatch(NODES, nodeKey, { status: { conditions } }, { subresource: "status" });
    await clock.advance(4000);
    expect(readiness()[0]).toBe("True");
    expect(taints()).toEqual([]);
    await clock.advance(1100);
    expect(readiness()[0]).toBe("Unknown");
  });

  it("loses its pods five minutes after its last heartbeat, and pods with a shorter toleration sooner", async () => {
    const tolerations = [
      { key: "node.kubernetes.io/unreachable", operator: "Exists", tolerationSeconds: 10 },
    ];
    client.seed(PODS, {
      metadata: { name: "hasty", namespace: "work" },
      spec: { nodeName: "n1", containers: [], tolerations },
    });
    await clock.advance(5100);
    expect(client.objects(PODS)).toHaveLength(2);
    await clock.advance(10_000);
    expect(client.objects(PODS).map((it) => it.metadata.name)).toEqual(["p1"]);
    await clock.advance(289_000);
    expect(client.state.all(PODS).has(podKey)).toBe(true);
    await clock.advance(2000);
    expect(client.state.all(PODS).size).toBe(0);
  });

  it("that is cordoned is tainted so, and keeps the taints of others", async () => {
    await clock.advance(0);
    const own: Taint = { key: "dedicated", value: "db", effect: "NoSchedule" };
    await client.mergePatch(NODES, nodeKey, { spec: { unschedulable: true, taints: [own] } });
    await clock.advance(0);
    expect(taints()).toEqual(["dedicated:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]);
    await client.mergePatch(NODES, nodeKey, { spec: { unschedulable: null } });
    await clock.advance(0);
    expect(taints()).toEqual(["dedicated:NoSchedule"]);
  });
});
