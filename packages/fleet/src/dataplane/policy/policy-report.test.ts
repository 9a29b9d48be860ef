import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { type NodeCondition, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { PolicyReport } from "./policy-report.ts";

const KEY = objectKey(undefined, "n1");
const READY: NodeCondition = { type: "Ready", status: "True" };

let stack: AsyncDisposableStack;
let clock: FakeClock;
let client: FakeKubeClient;
let report: PolicyReport;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  clock = new FakeClock();
  client = stack.use(new FakeKubeClient(clock));
  client.seed(NODES, { metadata: { name: "n1" }, status: { conditions: [READY] } });
  const deps = { ...systemDeps(silentLogger), clock };
  const nodes = stack.use(createInformer(client, NODES, {}, deps));
  const { signal } = new AbortController();
  nodes.start(signal);
  await clock.advance(1);
  report = stack.use(new PolicyReport({ client, nodeName: "n1", nodes, deps }));
  await report.start(signal);
});
afterEach(() => stack.disposeAsync());

async function said(): Promise<string | undefined> {
  await clock.advance(1);
  const { status } = await client.get(NODES, KEY);
  expect(status?.conditions).toContainEqual(READY);
  const found = status?.conditions?.find((it) => it.type === "fairlead.dev/NetworkPolicy");
  return found && `${found.status} ${found.reason}`;
}

/** An agent makes a pass each minute at least. */
async function minutes(count: number, state: Parameters<PolicyReport["set"]>[0]): Promise<void> {
  for (let minute = 0; minute < count; minute++) {
    report.set(state);
    await clock.advance(60_000);
  }
}

describe("the report of an agent on its Node", () => {
  it("is there while the cluster is in a network, and leaves the conditions of others alone", async () => {
    expect(await said()).toBeUndefined();
    report.set({});
    expect(await said()).toBe("True Enforced");
    report.set(undefined);
    expect(await said()).toBeUndefined();
  });

  it("says that rules cannot be written, until they can", async () => {
    report.set({ failed: "no memory" });
    expect(await said()).toBe("False NotEnforced");
    report.set({});
    expect(await said()).toBe("True Enforced");
  });

  it("names bridges whose pods can send with each other's addresses", async () => {
    report.set({ shared: ["cni0", "docker0"] });
    expect(await said()).toBe("True Enforced");
    const { status } = await client.get(NODES, KEY);
    expect(status?.conditions?.map((it) => it.message).join()).toContain(
      "pods that share a bridge (cni0, docker0) can send with each other's addresses",
    );
  });

  it("says where new pods are not closed", async () => {
    report.set({ open: "the policies of a new pod are enforced from when the agent knows its address" });
    expect(await said()).toBe("True EnforcedForKnownPods");
  });

  it("says what is wrong with bridges, also when that changes while the agent runs", async () => {
    report.set({ unseen: "policies between pods at the same bridge (cni0) are not enforced" });
    expect(await said()).toBe("False BridgeTrafficNotFiltered");
    report.set({});
    expect(await said()).toBe("True Enforced");
    report.set({ engine: "Calico", unseen: "x" });
    expect(await said()).toBe("False NetworkPluginEnforces");
  });

  it("is written again every five minutes while passes succeed, and not otherwise", async () => {
    report.set({});
    await clock.advance(1);
    client.writes.length = 0;
    await minutes(30, {});
    expect(client.writes.length).toBe(6);
    await clock.advance(3_600_000);
    expect(client.writes.length).toBe(6);
  });

  it("comes back if another program removed it", async () => {
    report.set({});
    await clock.advance(1);
    await client.mergePatch(NODES, KEY, { status: { conditions: [READY] } }, { subresource: "status" });
    expect(await said()).toBe("True Enforced");
  });

  it("says in which version the agent runs, and which versions of Kubernetes that supports", async () => {
    const of = async () =>
      (await client.get(NODES, KEY)).status?.conditions?.find((it) => it.type === "fairlead.dev/NodeAgent");
    report.set({});
    await clock.advance(1);
    expect((await of())?.message).toMatch(/^\d+\.\d+\.\d+ for Kubernetes 1\.\d+-1\.\d+$/);
    report.set(undefined);
    await clock.advance(1);
    expect(await of()).toBeUndefined();
  });

  it("is removed with the node's part of the network, which does not fail with it", async () => {
    report.set({});
    await clock.advance(1);
    await report.remove(new AbortController().signal);
    expect((await client.get(NODES, KEY)).status?.conditions).toEqual([READY]);
  });
});
