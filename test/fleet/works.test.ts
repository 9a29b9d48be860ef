/** Works of a mailbox on the hub, applied in the member. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  APPLIED_WORKS,
  type Work,
  WORKS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { eventuallyOne } from "../support/waiting.ts";
import {
  conditionOf,
  configMap,
  eventuallyWork,
  isApplied,
  manifestOf,
  namespace,
  reasonOf,
  startWorkBench,
  type WorkBench,
  workOf,
} from "../support/works.ts";

let bench: WorkBench;
beforeAll(async () => {
  bench = await startWorkBench();
}, 60_000);
afterAll(() => bench[Symbol.asyncDispose]());

const place = (work: Work): Promise<Work> => bench.hub.client.create(WORKS, work);

describe("a Work", () => {
  it("is applied, owned by its AppliedWork, and reported as available once its objects are", async () => {
    const { client } = bench.member;
    const web = { namespace: "shop", name: "web" };
    const labels = { app: "web" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "web", image: "nginx" }] } };
    await place(
      workOf("shop", [
        {
          apiVersion: "apps/v1",
          kind: "Deployment",
          metadata: web,
          spec: { replicas: 2, selector: { matchLabels: labels }, template },
        },
        {
          apiVersion: "v1",
          kind: "Service",
          metadata: web,
          spec: { selector: labels, ports: [{ port: 80 }] },
        },
        namespace("shop"),
      ]),
    );
    const applied = await eventuallyWork(bench, "shop", isApplied);
    expect(conditionOf(applied, "Available")).toBe("False SomeManifestsAreNotAvailable");
    expect([0, 1, 2].map((it) => reasonOf(applied, it, "Available"))).toEqual([
      "ManifestNotAvailableYet",
      "Available",
      "Available",
    ]);
    expect(manifestOf(applied, 0).identifier).toEqual({
      ordinal: 0,
      group: "apps",
      version: "v1",
      kind: "Deployment",
      resource: "deployments",
      namespace: "shop",
      name: "web",
    });
    const owner = await client.get(APPLIED_WORKS, objectKey(undefined, "shop"));
    const owned = await Promise.all([
      client.get(DEPLOYMENTS, objectKey("shop", "web")),
      client.get(SERVICES, objectKey("shop", "web")),
      client.get(NAMESPACES, objectKey(undefined, "shop")),
    ]);
    for (const { metadata } of owned)
      expect(metadata.ownerReferences).toMatchObject([{ uid: owner.metadata.uid, blockOwnerDeletion: true }]);
    expect(owner.spec).toEqual({ workName: "shop", workNamespace: "fleet-member-a" });
    expect(owner.status?.appliedResources?.map((it) => [it.kind, it.uid !== undefined])).toEqual([
      ["Deployment", true],
      ["Service", true],
      ["Namespace", true],
    ]);
    const { generation } = (await client.get(DEPLOYMENTS, objectKey("shop", "web"))).metadata;
    const status = {
      observedGeneration: generation,
      replicas: 2,
      availableReplicas: 2,
      updatedReplicas: 2,
      readyReplicas: 2,
    };
    await client.mergePatch(DEPLOYMENTS, objectKey("shop", "web"), { status }, { subresource: "status" });
    await eventuallyWork(
      bench,
      "shop",
      (it) => conditionOf(it, "Available") === "True AllManifestsAvailable",
    );
  });

  it("puts back what a user changes or deletes in the member", async () => {
    const { client } = bench.member;
    await place(workOf("kept", [namespace("kept"), configMap("kept", "c", { a: "1", b: "2" })]));
    await eventuallyWork(bench, "kept", isApplied);
    const key = objectKey("kept", "c");
    await client.mergePatch(CONFIG_MAPS, key, { data: { a: "other", mine: "3" } });
    await eventuallyOne(client, CONFIG_MAPS, key, (it) => it.data?.["a"] === "1" && it.data["mine"] === "3");
    const { uid } = (await client.get(CONFIG_MAPS, key)).metadata;
    await client.delete(CONFIG_MAPS, key);
    await eventuallyOne(client, CONFIG_MAPS, key, (it) => it.metadata.uid !== uid);
  });
});
