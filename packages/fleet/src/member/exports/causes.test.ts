import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { Causes } from "./causes.ts";
import type { ExportView } from "./view.ts";

const SELECTOR = { app: "hello" };
const signal = new AbortController().signal;

function world() {
  const clock = new FakeClock();
  const local = new FakeKubeClient(clock);
  const causes = new Causes(local, { ...systemDeps(silentLogger), clock });
  const find = (
    endpoints: EndpointSlice["endpoints"],
    selector: Record<string, string> | undefined = SELECTOR,
  ) => {
    const metadata = { namespace: "work", name: "hello" };
    const slices = [
      { metadata, addressType: "IPv4" as const, endpoints, ports: [{ name: "http", port: 80 }] },
    ];
    const service = { metadata, spec: { selector, ports: [{ name: "http", port: 80 }] } };
    const view: ExportView = {
      namespace: "work",
      name: "hello",
      fleet: undefined,
      mcs: undefined,
      current: undefined,
      service,
      slices,
    };
    return causes.find(view, signal);
  };
  const addPod = (name: string, labels: Record<string, string> = SELECTOR): void =>
    local.seed(PODS, { metadata: { namespace: "work", name, labels }, status: { phase: "Pending" } });
  const addDeployment = (replicas: number): void =>
    local.seed(DEPLOYMENTS, {
      metadata: { namespace: "work", name: "hello" },
      spec: {
        replicas,
        selector: { matchLabels: SELECTOR },
        template: { metadata: { labels: SELECTOR }, spec: { containers: [] } },
      },
    });
  return { clock, local, find, addPod, addDeployment };
}

const endpoint = (name: string, ready: boolean, terminating = false) => ({
  addresses: ["10.0.0.1"],
  conditions: { ready, terminating },
  targetRef: { kind: "Pod", namespace: "work", name },
});

describe("the cause for which a Service has no ready endpoints", () => {
  it("costs no request where it has some, or has no selector", async () => {
    const { local, find } = world();
    expect(await find([endpoint("hello-1", true)])).toBeUndefined();
    expect(await find([], {})).toBeUndefined();
    expect(local.reads).toEqual([]);
  });

  it("is the first of its pods that is to stay and is not ready", async () => {
    const { find, addPod } = world();
    for (const name of ["hello-1", "hello-2", "hello-10"]) addPod(name);
    const found = await find([
      endpoint("hello-10", false),
      endpoint("hello-1", false, true),
      endpoint("hello-2", false),
    ]);
    expect(found).toBe("pod hello-2 is Pending");
  });

  it("is a pod without address, or else the Deployment that makes none", async () => {
    const { find, addPod, addDeployment, clock } = world();
    expect(await find([])).toMatch(/^no pod matches the selector app=hello/);
    addDeployment(0);
    await clock.advance(3000);
    expect(await find([])).toBe("Deployment hello is scaled to 0 replicas");
    addPod("other", { app: "other" });
    addPod("hello-1");
    expect(await find([])).toBe("pod hello-1 is Pending");
  });

  it("is read once for many Services of a namespace", async () => {
    const { local, find } = world();
    for (let at = 0; at < 100; at += 1) await find([]);
    expect(local.reads.filter((it) => it.resource === "deployments")).toHaveLength(1);
  });

  it("is not known where the agent may not read it", async () => {
    const { local, find } = world();
    local.refuseReads = new FleetError("API_FORBIDDEN", "pods is forbidden");
    expect(await find([])).toBeUndefined();
  });
});
