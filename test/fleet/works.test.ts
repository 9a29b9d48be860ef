/** Works of a mailbox on the hub, applied in the member. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, type PolicyRule } from "@fairlead/kube/api/rbac/v1/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { requestToken } from "@fairlead/kube/client/token-request.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  APPLIED_WORKS,
  type Work,
  WORKS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { WorkSession } from "@fairlead/fleet/member/work/parts.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { DELETION_PROPAGATION_ANNOTATION } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/names.ts";
import { testDeps } from "../support/fleet.ts";
import { WrongClock } from "../support/wrong-clock.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
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

const DAY_MS = 86_400_000;
let bench: WorkBench;
beforeAll(async () => {
  bench = await startWorkBench();
});
afterAll(() => bench[Symbol.asyncDispose]());

const eventuallyAbsent = (client: KubeClient, of: Resource, key: ObjectKey): Promise<unknown> =>
  eventually<KubeObject>(client, of, (all) => !all.some((it) => keyOf(it) === key));
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

  it("that names a namespace applies nothing outside of it, whatever the rights of the agent", async () => {
    const { client } = bench.member;
    await client.create(NAMESPACES, { metadata: { name: "within" } });
    const root = {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "root" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    };
    const inside = { ...root, metadata: { name: "root", namespace: "within" } };
    const manifests = [configMap("within", "c"), root, inside, namespace("other"), configMap("kept", "d")];
    await place(workOf("within", manifests, { namespace: "within" }));
    const work = await eventuallyWork(bench, "within", (it) => conditionOf(it, "Applied") !== "");
    expect([0, 1, 2, 3, 4].map((it) => reasonOf(work, it))).toEqual([
      "Applied",
      "ManifestApplyFailed",
      "DecodingErred",
      "ManifestApplyFailed",
      "ManifestApplyFailed",
    ]);
    expect(await client.find(NAMESPACES, objectKey(undefined, "other"))).toBeUndefined();
    await bench.hub.client.delete(WORKS, keyOf(work));
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

describe("what a Work has no longer", () => {
  it("is deleted, unless others own it too, or it is not the Work's any more", async () => {
    const { client } = bench.member;
    const names = ["stays", "dropped", "shared", "freed"];
    const work = await place(
      workOf("less", [namespace("less"), ...names.map((it) => configMap("less", it))]),
    );
    await eventuallyWork(bench, "less", isApplied);
    const other = await client.create(CONFIG_MAPS, { metadata: { namespace: "less", name: "owner" } });
    const { ownerReferences = [] } = (await client.get(CONFIG_MAPS, objectKey("less", "shared"))).metadata;
    const reference = { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: other.metadata.uid ?? "" };
    await client.mergePatch(CONFIG_MAPS, objectKey("less", "shared"), {
      metadata: { ownerReferences: [...ownerReferences, reference] },
    });
    await bench.stop();
    await client.mergePatch(CONFIG_MAPS, objectKey("less", "freed"), { metadata: { ownerReferences: null } });
    await bench.hub.client.mergePatch(WORKS, keyOf(work), {
      spec: { workload: { manifests: [namespace("less"), configMap("less", "stays")] } },
    });
    await bench.restart();
    await eventuallyOne(
      client,
      APPLIED_WORKS,
      objectKey(undefined, "less"),
      (it) => it.status?.appliedResources?.length === 2,
    );
    const left = (await client.list(CONFIG_MAPS, { namespace: "less" })).items;
    expect(left.map((it) => it.metadata.name).toSorted()).toEqual(["freed", "owner", "shared", "stays"]);
    const shared = left.find((it) => it.metadata.name === "shared");
    expect(shared?.metadata.ownerReferences).toMatchObject([{ name: "owner" }]);
  });

  it("goes with the Work, but for what others own too", async () => {
    const { client } = bench.member;
    const work = await place(
      workOf("gone", [namespace("gone-a"), namespace("gone-b"), configMap("gone-b", "shared")]),
    );
    await eventuallyWork(bench, "gone", isApplied);
    const shared = objectKey(undefined, "gone-b");
    const { ownerReferences = [] } = (await client.get(NAMESPACES, shared)).metadata;
    const { uid = "" } = (await client.get(NAMESPACES, objectKey(undefined, "less"))).metadata;
    const reference = { apiVersion: "v1", kind: "Namespace", name: "less", uid };
    await client.mergePatch(NAMESPACES, shared, {
      metadata: { ownerReferences: [...ownerReferences, reference] },
    });
    await bench.hub.client.delete(WORKS, keyOf(work));
    await eventuallyAbsent(bench.hub.client, WORKS, keyOf(work));
    expect(await client.find(APPLIED_WORKS, objectKey(undefined, "gone"))).toBeUndefined();
    const left = await client.list(NAMESPACES);
    expect(
      left.items.filter(
        (it) => it.metadata.name.startsWith("gone") && it.metadata.deletionTimestamp === undefined,
      ),
    ).toMatchObject([{ metadata: { name: "gone-b", ownerReferences: [{ name: "less" }] } }]);
  });

  it("stays where the Work abandons it", async () => {
    const { client } = bench.member;
    const work = await place(workOf("abandoned", [namespace("abandoned"), configMap("abandoned", "c")]));
    await eventuallyWork(bench, "abandoned", isApplied);
    const annotations = { [DELETION_PROPAGATION_ANNOTATION]: "Abandon" };
    await bench.hub.client.mergePatch(WORKS, keyOf(work), { metadata: { annotations } });
    await bench.hub.client.delete(WORKS, keyOf(work));
    await eventuallyAbsent(bench.hub.client, WORKS, keyOf(work));
    const left = await client.get(CONFIG_MAPS, objectKey("abandoned", "c"));
    expect([left.metadata.ownerReferences, left.metadata.deletionTimestamp]).toEqual([undefined, undefined]);
  });

  it("stays when the Work vanishes without being deleted, as from a hub that lost its data", async () => {
    const { client } = bench.member;
    const work = await place(workOf("lost", [namespace("lost"), configMap("lost", "c")]));
    await eventuallyWork(bench, "lost", isApplied);
    await bench.stop();
    await bench.hub.client.mergePatch(WORKS, keyOf(work), { metadata: { finalizers: null } });
    await bench.hub.client.delete(WORKS, keyOf(work));
    const controller = await bench.restart();
    await controller.idle(AbortSignal.timeout(20_000));
    expect(await client.find(CONFIG_MAPS, objectKey("lost", "c"))).toBeDefined();
    // The hub's administrator places it again, under another name: what no Work stands for any more is taken over.
    await place(workOf("found", [configMap("lost", "c", { a: "2" })]));
    await eventuallyWork(bench, "found", isApplied);
    const taken = await client.get(CONFIG_MAPS, objectKey("lost", "c"));
    expect(taken.metadata.ownerReferences).toMatchObject([{ name: "found" }]);
  });

  const stuck = {
    ...configMap("less", "stuck"),
    metadata: { namespace: "less", name: "stuck", finalizers: ["example.com/stuck"] },
  };
  const release = (): Promise<unknown> =>
    bench.member.client.mergePatch(CONFIG_MAPS, objectKey("less", "stuck"), {
      metadata: { finalizers: null },
    });
  const withClock = (aheadMs: number): Partial<WorkSession> => ({
    deps: { ...testDeps("member"), clock: new WrongClock(aheadMs) },
  });

  it("does not keep the Work for ever where it cannot go, also by a clock that is a day behind", async () => {
    await bench.restart({ deletionWaitMs: 1, ...withClock(-DAY_MS) });
    const { client } = bench.member;
    const work = await place(workOf("stuck", [stuck]));
    await eventuallyWork(bench, "stuck", isApplied);
    await bench.hub.client.delete(WORKS, keyOf(work));
    await eventuallyAbsent(bench.hub.client, WORKS, keyOf(work));
    const left = await client.get(CONFIG_MAPS, objectKey("less", "stuck"));
    expect(left.metadata.ownerReferences).toBeUndefined();
    await release();
    await bench.restart();
  });

  it("is waited for as long as it may take to go, also by a clock that is a day ahead", async () => {
    await bench.restart(withClock(DAY_MS));
    const { client } = bench.member;
    const work = await place(workOf("stuck", [stuck]));
    await eventuallyWork(bench, "stuck", isApplied);
    await bench.hub.client.delete(WORKS, keyOf(work));
    await eventuallyOne(
      client,
      APPLIED_WORKS,
      objectKey(undefined, "stuck"),
      (it) => it.metadata.deletionTimestamp !== undefined,
    );
    // Another agent looks at it again.
    const controller = await bench.restart(withClock(DAY_MS));
    await controller.idle(AbortSignal.timeout(20_000));
    const left = await client.get(CONFIG_MAPS, objectKey("less", "stuck"));
    expect(left.metadata.ownerReferences).toMatchObject([{ name: "stuck" }]);
    await release();
    await eventuallyAbsent(bench.hub.client, WORKS, keyOf(work));
    await bench.restart();
  });

  it("stays when the cluster leaves the fleet, and is taken over when it is back", async () => {
    const { client } = bench.member;
    const work = await place(workOf("leaves", [namespace("leaves"), configMap("leaves", "c")]));
    await eventuallyWork(bench, "leaves", isApplied);
    await bench.restart({ membership: () => "leave" });
    await eventuallyWork(bench, "leaves", (it) => (it.metadata.finalizers ?? []).length === 0);
    await bench.hub.client.delete(WORKS, keyOf(work));
    await eventuallyAbsent(bench.hub.client, WORKS, keyOf(work));
    expect(await client.find(APPLIED_WORKS, objectKey(undefined, "leaves"))).toBeDefined();
    await bench.restart();
    await place(workOf("leaves-again", [namespace("leaves"), configMap("leaves", "c")]));
    await eventuallyWork(bench, "leaves-again", isApplied);
    const back = await client.get(CONFIG_MAPS, objectKey("leaves", "c"));
    expect(back.metadata.ownerReferences).toMatchObject([{ name: "leaves-again" }]);
  });
});

describe("a member that applies with a narrow role", () => {
  const account = { namespace: "narrow", name: "agent" };
  const role = objectKey(undefined, "narrow");
  const rule = (apiGroup: string, resource: string, ...verbs: string[]): PolicyRule => ({
    apiGroups: [apiGroup],
    resources: [resource],
    verbs,
  });
  const rules = [
    rule("", "namespaces", "get", "list", "watch", "create", "patch", "update"),
    rule("placement.kubernetes-fleet.io", "*", "*"),
  ];
  const settings: readonly [string, object][] = [
    ["plain", { labels: { team: "a" } }],
    ["pods", { labels: { "pod-security.kubernetes.io/enforce": "privileged" } }],
    ["attached", { labels: { "fairlead.dev/attach": "true" } }],
    ["logged", { annotations: { "fairlead.dev/flow-log": "all" } }],
    ["global", { annotations: { "clustermesh.cilium.io/global": "true" } }],
  ];
  let local: KubeClient;
  beforeAll(async () => {
    const { client, config } = bench.member;
    await client.create(NAMESPACES, { metadata: { name: account.namespace } });
    await client.create(SERVICE_ACCOUNTS, { metadata: account });
    await client.create(CLUSTER_ROLES, { metadata: { name: "narrow" }, rules });
    await client.create(CLUSTER_ROLE_BINDINGS, {
      metadata: { name: "narrow" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "narrow" },
      subjects: [{ kind: "ServiceAccount", ...account }],
    });
    const token = await requestToken(client, { ...account, seconds: 3600 }, AbortSignal.timeout(10_000));
    local = connect({ ...config, credentials: fixedCredentials({ token }) }, testDeps("narrow"));
    await bench.restart({ local });
  });
  afterAll(async () => {
    await bench.restart();
    await local[Symbol.asyncDispose]();
  });

  it("takes settings that decide what a Namespace may do only if the role has verb administer", async () => {
    const namespaceWith = ([name, more]: readonly [string, object]): object => ({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: `narrow-${name}`, ...more },
    });
    await place(workOf("narrow", settings.map(namespaceWith)));
    const refused = await eventuallyWork(bench, "narrow", (it) => conditionOf(it, "Applied") !== "");
    expect(settings.map((_, at) => reasonOf(refused, at))).toEqual([
      "Applied",
      ...Array<string>(4).fill("ManifestApplyFailed"),
    ]);
    expect(manifestOf(refused, 1).conditions?.[0]?.message).toBe(
      "Namespace narrow-pods has pod-security.kubernetes.io/enforce, and the role with which this member applies objects lacks the verb administer on namespaces: remove the setting, or add the verb to the role",
    );
    const { client } = bench.member;
    expect(await client.find(NAMESPACES, objectKey(undefined, "narrow-pods"))).toBeUndefined();
    await client.mergePatch(CLUSTER_ROLES, role, { rules: [...rules, rule("", "namespaces", "administer")] });
    await bench.restart({ local });
    await eventuallyWork(bench, "narrow", isApplied);
    const { metadata } = await client.get(NAMESPACES, objectKey(undefined, "narrow-pods"));
    expect(metadata.labels).toMatchObject({ "pod-security.kubernetes.io/enforce": "privileged" });
  });
});
