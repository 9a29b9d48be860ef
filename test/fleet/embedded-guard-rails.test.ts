/** The guard rails of a hub without a cluster, whose API server asks the hub in its own process. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { silentLogger } from "@fairlead/base/log.ts";
import { runEmbeddedHub } from "@fairlead/fairlead/hub/embedded.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { INTERNAL_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { CLUSTER_RESOURCE_OVERRIDES } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { CLUSTER_RESOURCE_PLACEMENTS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { HUB_DEFAULTS } from "@fairlead/fleet/hub/hub.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { Restartable, testDeps } from "../support/fleet.ts";

const folder = mkdtempSync(join(tmpdir(), "embedded-guard-rails-"));
let onReady: () => void;
const program = new Restartable((signal) =>
  runEmbeddedHub(
    { signal, log: silentLogger, ready: () => onReady() },
    { embedded: true, data: folder, port: "0", bindAddress: "127.0.0.1" },
    { leases: LEASES_OF.hub, servers: [], hub: { ...HUB_DEFAULTS, placement: true } },
  ),
);
let admin: KubeClient;

async function startHub(): Promise<void> {
  const ready = Promise.withResolvers<void>();
  onReady = ready.resolve;
  program.start();
  await ready.promise;
  admin = connect(await loadKubeconfig(join(folder, "admin.kubeconfig")), testDeps("admin"));
}
async function stopHub(): Promise<void> {
  await admin[Symbol.asyncDispose]();
  await program.stop();
}

beforeAll(startHub, 60_000);
afterAll(async () => {
  await stopHub();
  rmSync(folder, { recursive: true, force: true });
});

const override = (name: string) => ({
  metadata: { name },
  spec: {
    clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "work" }],
    policy: { overrideRules: [{ overrideType: "Delete" as const }] },
  },
});
const member = (name: string) => objectKey(undefined, name);
const hasMailbox = (name: string) =>
  vi.waitFor(() => admin.get(NAMESPACES, objectKey(undefined, `fleet-member-${name}`)), { timeout: 20_000 });
const join_ = async (name: string): Promise<void> => {
  const identity = { kind: "User" as const, name: `fleet:member:${name}` };
  await admin.create(MEMBER_CLUSTERS, { metadata: { name }, spec: { identity } });
  await hasMailbox(name);
};

it("refuses a second override of an object by an administrator, as soon as it is ready", async () => {
  await admin.create(CLUSTER_RESOURCE_OVERRIDES, override("first"));
  await expect(admin.create(CLUSTER_RESOURCE_OVERRIDES, override("second"))).rejects.toThrow(
    "Namespace work (v1) is selected by override first",
  );
});

it("refuses a pod with the reason that a hub runs no workloads, and where to place it", async () => {
  await admin.create(NAMESPACES, { metadata: { name: "demo" } });
  const pod = {
    metadata: { namespace: "demo", name: "p" },
    spec: { containers: [{ name: "c", image: "busybox" }] },
  };
  await expect(admin.create(PODS, pod)).rejects.toThrow(
    "the hub of a fleet runs no workloads: pods may be created only in namespaces fleet-* and kube-*",
  );
});

it("keeps a member that exports services from being deleted, unless its validationMode is Skip", async () => {
  await join_("a");
  const serviceReference = {
    clusterId: "a",
    kind: "Service",
    namespace: "work",
    name: "s",
    namespacedName: "work/s",
    resourceVersion: "1",
    generation: 1,
    uid: "u",
  };
  await admin.create(INTERNAL_SERVICE_EXPORTS, {
    metadata: { namespace: "fleet-member-a", name: "work-s" },
    spec: { ports: [{ port: 80 }], serviceReference },
  });
  await expect(admin.delete(MEMBER_CLUSTERS, member("a"))).rejects.toThrow("is Strict, and a still exports");
  await admin.mergePatch(MEMBER_CLUSTERS, member("a"), {
    spec: { deleteOptions: { validationMode: "Skip" } },
  });
  await admin.delete(MEMBER_CLUSTERS, member("a"));
});

it("runs no workloads", async () => {
  const labels = { app: "a" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
  const set = {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: "r" },
    spec: { selector: { matchLabels: labels }, template },
  };
  await expect(admin.request("POST", "/apis/apps/v1/namespaces/default/replicasets", set)).rejects.toThrow(
    "the hub of a fleet runs no workloads",
  );
});

it("has a hub of its own name, with the rights that the chart gives it", async () => {
  const may = async (verb: string, resource: string, group = ""): Promise<unknown> => {
    const resourceAttributes = { verb, group, resource, namespace: "work" };
    const review = await admin.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec: { user: "fairlead:hub", resourceAttributes },
    });
    return (review as { readonly status: { readonly allowed: boolean } }).status.allowed;
  };
  expect(await may("delete", "secrets")).toBe(false);
  expect(await may("create", "deployments", "apps")).toBe(false);
  expect(await may("patch", "memberclusters", "cluster.kubernetes-fleet.io")).toBe(true);
});

it("starts again while the configuration names a webhook that is gone, and enforces the same once it is ready", async () => {
  await stopHub();
  await startHub();
  await expect(admin.create(CLUSTER_RESOURCE_OVERRIDES, override("second"))).rejects.toThrow(
    "Namespace work (v1) is selected by override first",
  );
  // What the hub writes, and Leases, do not pass the webhook.
  await join_("b");
  await admin.create(LEASES, { metadata: { namespace: "fleet-member-b", name: "b" }, spec: {} });
  await admin.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "p" },
    spec: { resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "work" }] },
  });
  await vi.waitFor(
    async () => {
      const placed = await admin.get(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, "p"));
      expect(placed.metadata.finalizers).toContain("kubernetes-fleet.io/crp-cleanup");
    },
    { timeout: 20_000 },
  );
});
