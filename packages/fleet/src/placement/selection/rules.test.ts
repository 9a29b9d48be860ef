import { resource } from "@fairlead/kube/api/meta/resource.ts";
import { describe, expect, it } from "vitest";
import { KINDS, object } from "./objects.fake.ts";
import { placementRules } from "./rules.ts";

const rules = placementRules();

describe("a kind is never placed", () => {
  it.each([
    ["cluster.kubernetes-fleet.io/v1beta1", "MemberCluster"],
    ["placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement"],
    ["placement.kubernetes-fleet.io/v1beta1", "Work"],
    ["placement.kubernetes-fleet.io/v1beta1", "ClusterResourceSnapshot"],
    ["networking.fleet.azure.com/v1alpha1", "ServiceImport"],
    ["networking.fleet.azure.com/v1beta1", "TrafficManagerProfile"],
    ["networking.fleet.azure.com/v1beta1", "TrafficManagerBackend"],
    ["networking.fleet.azure.com/v1alpha1", "InternalServiceExport"],
    ["networking.fleet.azure.com/v1alpha1", "InternalServiceImport"],
    ["networking.fleet.azure.com/v1alpha1", "EndpointSliceExport"],
    ["networking.fleet.azure.com/v1alpha1", "EndpointSliceImport"],
    ["fairlead.dev/v1alpha1", "IdentitySlice"],
    ["events.k8s.io/v1", "Event"],
    ["coordination.k8s.io/v1", "Lease"],
    ["metrics.k8s.io/v1beta1", "PodMetrics"],
    ["v1", "Pod"],
    ["v1", "Node"],
    ["v1", "Event"],
  ])("if it is %s %s", (apiVersion, kind) => {
    expect(rules.isKindPlaced(resource(apiVersion, kind, "x"))).toBe(false);
  });
  it.each([
    ["placement.kubernetes-fleet.io/v1beta1", "ClusterResourceEnvelope"],
    ["placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope"],
    ["networking.fleet.azure.com/v1alpha1", "ServiceExport"],
    ["networking.fleet.azure.com/v1alpha1", "MultiClusterService"],
    ["v1", "Namespace"],
    ["v1", "PersistentVolumeClaim"],
    ["example.com/v1", "constructor"],
    ["constructor/v1", "Pod"],
  ])("unless it is %s %s", (apiVersion, kind) => {
    expect(rules.isKindPlaced(resource(apiVersion, kind, "x"))).toBe(true);
  });
});

it.each(["default", "kube-system", "kube-x", "fleet-system", "fleet-member-a"])(
  "the namespace %s is never placed",
  (name) => {
    expect(rules.isNamespacePlaced(name)).toBe(false);
  },
);
it("other namespaces are placed, unless an option names them", () => {
  expect(rules.isNamespacePlaced("shop")).toBe(true);
  expect(rules.isNamespacePlaced("defaults")).toBe(true);
  expect(placementRules({ skippedNamespaces: ["shop"] }).isNamespacePlaced("shop")).toBe(false);
});

describe("an object is never placed", () => {
  const owned = { metadata: { ownerReferences: [{ apiVersion: "v1", kind: "X", name: "x", uid: "u" }] } };
  const replicaSet = resource("apps/v1", "ReplicaSet", "replicasets");
  const revision = resource("apps/v1", "ControllerRevision", "controllerrevisions");
  const account = resource("v1", "ServiceAccount", "serviceaccounts");
  const slice = resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices");
  const service = resource("v1", "Service", "services");
  const ofMember = { metadata: { labels: { "fairlead.dev/managed-by": "fairlead-member" } } };
  const managed = { metadata: { labels: { "endpointslice.kubernetes.io/managed-by": "anyone" } } };
  const nested = (levels: number): unknown => JSON.parse(`{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`);
  it.each([
    ["a ReplicaSet with an owner", object(replicaSet, "x", owned)],
    ["a ControllerRevision with an owner", object(revision, "x", owned)],
    ["the ConfigMap kube-root-ca.crt", object(KINDS.configMap, "kube-root-ca.crt")],
    ["the ServiceAccount default", object(account, "default")],
    [
      "a token of a ServiceAccount",
      object(KINDS.secret, "x", { type: "kubernetes.io/service-account-token" }),
    ],
    ["an EndpointSlice that a controller manages", object(slice, "x", managed)],
    ["what the agent of a member made on the hub's own cluster", object(service, "derived-x", ofMember)],
    ["one that is being deleted", object(KINDS.configMap, "x", { metadata: { deletionTimestamp: "t" } })],
    ["one that is nested deeper than 512 levels", object(KINDS.configMap, "x", { data: nested(511) })],
  ])("if it is %s", (_, it) => {
    expect(rules.isObjectPlaced(it)).toBe(false);
  });
  it.each([
    ["a ReplicaSet without owner", object(replicaSet, "x")],
    ["a Deployment with an owner", object(KINDS.deployment, "x", owned)],
    ["a ServiceAccount", object(account, "builder")],
    ["a Secret of another type", object(KINDS.secret, "x", { type: "Opaque" })],
    ["an EndpointSlice of a user", object(slice, "x")],
    ["one that is nested 512 levels deep", object(KINDS.configMap, "x", { data: nested(510) })],
    ["a Secret named as the ConfigMap", object(KINDS.secret, "kube-root-ca.crt")],
  ])("unless it is %s", (_, it) => {
    expect(rules.isObjectPlaced(it)).toBe(true);
  });
  it("if it is a PersistentVolumeClaim of a hub that runs workloads", () => {
    const claim = object(resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims"), "x");
    expect(rules.isObjectPlaced(claim)).toBe(true);
    expect(placementRules({ runsWorkloads: true }).isObjectPlaced(claim)).toBe(false);
  });
});

describe("the options skipped and allowed APIs", () => {
  const isPlaced = (
    options: Parameters<typeof placementRules>[0],
    apiVersion: string,
    kind: string,
  ): boolean => placementRules(options).isKindPlaced(resource(apiVersion, kind, "x"));
  it.each([
    ["apps", "apps/v1", "Deployment", false],
    ["apps/v1", "apps/v1beta1", "Deployment", true],
    ["apps/v1/StatefulSet,Deployment", "apps/v1", "Deployment", false],
    ["apps/v1/StatefulSet,Deployment", "apps/v1", "DaemonSet", true],
    ["batch; /v1/Secret", "v1", "Secret", false],
    ["batch; /v1/Secret", "v1", "ConfigMap", true],
  ])("skipped %s: %s %s is placed: %s", (skippedApis, apiVersion, kind, expected) => {
    expect(isPlaced({ skippedApis }, apiVersion, kind)).toBe(expected);
  });
  it("allow nothing but what they name, Namespaces, and never what is never placed", () => {
    const allowedApis = "apps/v1; /v1/Pod";
    expect(isPlaced({ allowedApis }, "apps/v1", "Deployment")).toBe(true);
    expect(isPlaced({ allowedApis }, "v1", "ConfigMap")).toBe(false);
    expect(isPlaced({ allowedApis }, "v1", "Namespace")).toBe(true);
    expect(isPlaced({ allowedApis }, "v1", "Pod")).toBe(false);
  });
  it("exclude each other, and say what they cannot read", () => {
    expect(() => placementRules({ skippedApis: "a", allowedApis: "b" })).toThrow("exclude each other");
    expect(() => placementRules({ skippedApis: "a/b/c/d" })).toThrow('cannot read "a/b/c/d"');
    expect(() => placementRules({ skippedApis: "a//C" })).toThrow('cannot read "a//C"');
  });
});
