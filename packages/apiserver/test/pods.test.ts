import { afterAll, beforeAll, expect, describe, it } from "vitest";
import { type Answer, startTestServer, type TestServer } from "./support.ts";

const NAMESPACE = "/api/v1/namespaces/default";

describe("pods", () => {
  let test: TestServer;
  beforeAll(async () => {
    test = await startTestServer();
    await post("/serviceaccounts", {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "default" },
    });
  });
  afterAll(() => test[Symbol.asyncDispose]());

  function post(path: string, body: unknown): Promise<Answer> {
    return test.call("POST", NAMESPACE + path, { body });
  }
  function get(name: string): Promise<Answer> {
    return test.call("GET", `${NAMESPACE}/pods/${name}`);
  }
  async function makePod(name: string, spec: object = {}): Promise<void> {
    const containers = [{ name: "c", image: "i" }];
    const metadata = { name, labels: { app: name } };
    const made = await post("/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: { containers, ...spec },
    });
    expect(made.code).toBe(201);
  }
  function report(name: string, status: object): Promise<Answer> {
    const headers = { "Content-Type": "application/merge-patch+json" };
    return test.call("PATCH", `${NAMESPACE}/pods/${name}/status`, { body: { status }, headers });
  }

  it("wait briefly for the default ServiceAccount of a new namespace", async () => {
    await test.call("POST", "/api/v1/namespaces", { body: { metadata: { name: "fresh" } } });
    const inFresh = "/api/v1/namespaces/fresh";
    const pod = (name: string) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec: { containers: [{ name: "c", image: "i" }] },
    });
    const created = test.call("POST", `${inFresh}/pods`, { body: pod("created") });
    const headers = { "Content-Type": "application/apply-patch+yaml" };
    const applied = test.call("PATCH", `${inFresh}/pods/applied?fieldManager=test`, {
      body: pod("applied"),
      headers,
    });
    const other = { ...pod("other").spec, serviceAccountName: "other" };
    // It is answered at once: no controller creates other accounts.
    expect(
      (await test.call("POST", `${inFresh}/pods`, { body: { ...pod("other"), spec: other } })).code,
    ).toBe(403);
    await test.call("POST", `${inFresh}/serviceaccounts`, { body: { metadata: { name: "default" } } });
    expect([(await created).code, (await applied).code]).toEqual([201, 201]);
  });

  it("get their node from a binding, once", async () => {
    await makePod("bound");
    const binding = {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { name: "bound" },
      target: { kind: "Node", name: "n1" },
    };
    expect((await post("/pods/bound/binding", binding)).json).toMatchObject({
      kind: "Status",
      status: "Success",
      code: 201,
    });
    const { json } = await get("bound");
    expect(json.spec["nodeName"]).toBe("n1");
    expect(json.status["conditions"]).toMatchObject([{ type: "PodScheduled", status: "True" }]);
    expect((await post("/pods/bound/binding", binding)).json).toMatchObject({
      code: 409,
      reason: "Conflict",
    });
    expect((await post("/pods/absent/binding", { ...binding, metadata: { name: "absent" } })).code).toBe(404);
  });

  it("terminate for their grace period until their kubelet deletes them, and are deleted at once without a node", async () => {
    await makePod("unscheduled");
    await test.call("DELETE", `${NAMESPACE}/pods/unscheduled`);
    expect((await get("unscheduled")).code).toBe(404);
    await makePod("graceful", { nodeName: "n1" });
    const deleted = await test.call("DELETE", `${NAMESPACE}/pods/graceful`);
    expect(deleted.json.metadata).toMatchObject({
      deletionGracePeriodSeconds: 30,
      deletionTimestamp: expect.any(String) as string,
    });
    const shorter = await test.call("DELETE", `${NAMESPACE}/pods/graceful?gracePeriodSeconds=5`);
    expect(shorter.json.metadata["deletionGracePeriodSeconds"]).toBe(5);
    const longer = await test.call("DELETE", `${NAMESPACE}/pods/graceful?gracePeriodSeconds=60`);
    expect(longer.json.metadata["deletionGracePeriodSeconds"]).toBe(5);
    await test.call("DELETE", `${NAMESPACE}/pods/graceful`, { body: { gracePeriodSeconds: 0 } });
    expect((await get("graceful")).code).toBe(404);
  });

  it("are evicted only as far as their disruption budget allows", async () => {
    await makePod("guarded", { nodeName: "n1" });
    await report("guarded", { phase: "Running" });
    const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    const budget = {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: "b" },
      spec: { minAvailable: 1, selector: { matchLabels: { app: "guarded" } } },
    };
    expect((await test.call("POST", budgets, { body: budget })).code).toBe(201);
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "guarded" } };
    const refused = await post("/pods/guarded/eviction", eviction);
    expect(refused.json).toMatchObject({ code: 429, reason: "TooManyRequests" });
    expect(refused.headers["retry-after"]).toBe("10");
    const headers = { "Content-Type": "application/merge-patch+json" };
    const patch = async (status: object) =>
      test.call("PATCH", `${budgets}/b/status`, { body: { status }, headers });
    await patch({ observedGeneration: 1, desiredHealthy: 1, currentHealthy: 1 });
    await report("guarded", { phase: "Running", conditions: [{ type: "Ready", status: "True" }] });
    const exhausted = await post("/pods/guarded/eviction", eviction);
    expect(exhausted.json).toMatchObject({
      code: 429,
      details: {
        causes: [
          {
            reason: "DisruptionBudget",
            message: "The disruption budget b needs 1 healthy pods and has 1 currently",
          },
        ],
      },
    });
    await test.call("POST", budgets, { body: { ...budget, metadata: { name: "b2" } } });
    expect((await post("/pods/guarded/eviction", eviction)).json).toMatchObject({
      code: 500,
      message:
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    });
    await test.call("DELETE", `${budgets}/b2`);
    await patch({ currentHealthy: 2, disruptionsAllowed: 1 });
    expect((await post("/pods/guarded/eviction", eviction)).code).toBe(201);
    expect((await get("guarded")).json.metadata["deletionTimestamp"]).toBeDefined();
    expect((await test.call("GET", `${budgets}/b`)).json.status["disruptionsAllowed"]).toBe(0);
  });
});
