import { afterEach, describe, expect, it } from "vitest";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { IdentitySource, selectorOf } from "./source.ts";

let stack = new AsyncDisposableStack();

afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

function sourceOf(onSynced: () => void): IdentitySource {
  const hub = stack.use(new FakeKubeClient());
  const deps = systemDeps(silentLogger);
  return stack.use(new IdentitySource({ hub, deps }, { onChange: () => {}, onSynced }));
}

describe("the part of the view that a member reads", () => {
  it("is not known before the member knows what it needs: copies stay until then", async () => {
    let synced = Promise.withResolvers<void>();
    const source = sourceOf(() => synced.resolve());
    expect(source.isKnown).toBe(false);
    await source.follow({ namespace: "fleet-view-default", labelSelector: "a!=b" });
    expect(source.isKnown).toBe(false);
    await synced.promise;
    expect(source.isKnown).toBe(true);
    synced = Promise.withResolvers<void>();
    await source.follow(undefined);
    await synced.promise;
    expect(source.isKnown).toBe(true);
  });

  it("is known to be none by a member that needs nothing", async () => {
    let count = 0;
    const source = sourceOf(() => (count += 1));
    await source.follow(undefined);
    expect([source.isKnown, count]).toEqual([true, 1]);
  });

  it("is selected by the clusters and namespaces of all requests", () => {
    const others = "fairlead.dev/source-cluster!=b";
    expect(selectorOf({ requests: [] }, "b")).toBeUndefined();
    expect(selectorOf({ requests: [{}] }, "b")).toBe(others);
    expect(
      selectorOf(
        {
          requests: [
            { clusters: ["c"], namespaces: ["shop"] },
            { clusters: ["a"], namespaces: ["bank"] },
          ],
        },
        "b",
      ),
    ).toBe(`${others},fairlead.dev/service-namespace in (bank,shop),fairlead.dev/source-cluster in (a,c)`);
    expect(selectorOf({ requests: [{ clusters: ["a"] }, { namespaces: ["shop"] }] }, "b")).toBe(others);
    expect(selectorOf({ requests: [{ clusters: ["a"], namespaces: ["shop"] }], nodes: true }, "b")).toBe(
      `${others},fairlead.dev/service-namespace in (,shop)`,
    );
  });
});
