import { resource } from "@fairlead/kube/api/meta/resource.ts";
import { describe, expect, it } from "vitest";
import { cleaned } from "./cleaning.ts";
import { contentOf } from "./content.ts";
import { KINDS, object } from "./objects.fake.ts";

describe("what is placed of an object", () => {
  it.each([
    ["resourceVersion", "1"],
    ["generation", 1],
    ["uid", "u"],
    ["selfLink", "/x"],
    ["creationTimestamp", "t"],
    ["deletionTimestamp", "t"],
    ["managedFields", []],
    ["ownerReferences", []],
  ])("leaves metadata.%s out", (field, value) => {
    const it = object(KINDS.configMap, "x", { metadata: { [field]: value, labels: { a: "b" } }, data: {} });
    expect(cleaned(it)).toEqual(object(KINDS.configMap, "x", { metadata: { labels: { a: "b" } }, data: {} }));
  });
  it("leaves the status and the annotations of kubectl and of Deployments out", () => {
    const annotations = {
      "kubectl.kubernetes.io/last-applied-configuration": "{}",
      "deployment.kubernetes.io/revision": "3",
    };
    const own = { "example.com/team": "a" };
    const it = object(KINDS.deployment, "x", {
      metadata: { annotations: { ...annotations, ...own } },
      spec: {},
      status: {},
    });
    expect(cleaned(it)).toEqual(object(KINDS.deployment, "x", { metadata: { annotations: own }, spec: {} }));
    expect(cleaned(object(KINDS.deployment, "x", { metadata: { annotations } }))).toEqual(
      object(KINDS.deployment, "x"),
    );
  });
  it("leaves out which members the hub trusts with a Namespace, and keeps its settings for members", () => {
    const kept = { "fairlead.dev/flow-log": "all" };
    const annotations = { ...kept, "fairlead.dev/allowed-exporters": "a", "fairlead.dev/member-user": "u" };
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "x", annotations } };
    expect(cleaned(namespace).metadata.annotations).toEqual(kept);
    const other = object(KINDS.configMap, "x", { metadata: { annotations } });
    expect(cleaned(other).metadata.annotations).toEqual(annotations);
  });
  it("leaves addresses and node ports of a Service out, and keeps None", () => {
    const spec = {
      clusterIP: "10.0.0.1",
      clusterIPs: ["10.0.0.1"],
      healthCheckNodePort: 3,
      ports: [{ port: 80, nodePort: 30080 }],
      type: "LoadBalancer",
    };
    const placed = { ports: [{ port: 80 }], type: "LoadBalancer" };
    expect(cleaned(object(KINDS.service, "x", { spec }))).toEqual(
      object(KINDS.service, "x", { spec: placed }),
    );
    const headless = { clusterIP: "None", clusterIPs: ["None"], ports: [] };
    expect(cleaned(object(KINDS.service, "x", { spec: headless }))).toEqual(
      object(KINDS.service, "x", { spec: headless }),
    );
    const widget = object(KINDS.widget, "x", { spec: { clusterIP: "10.0.0.1" } });
    expect(cleaned(widget)).toEqual(widget);
  });
  it("leaves the generated selector and labels of a Job out, unless the user manages them", () => {
    const job = resource("batch/v1", "Job", "jobs");
    const labels = {
      "controller-uid": "u",
      "job-name": "x",
      "batch.kubernetes.io/controller-uid": "u",
      "batch.kubernetes.io/job-name": "x",
    };
    const spec = (own: object) => ({
      ...own,
      selector: { matchLabels: { "batch.kubernetes.io/controller-uid": "u" } },
      template: { metadata: { labels: { ...labels, app: "x" }, creationTimestamp: null }, spec: {} },
    });
    expect(cleaned(object(job, "x", { spec: spec({}) }))).toEqual(
      object(job, "x", { spec: { template: { metadata: { labels: { app: "x" } }, spec: {} } } }),
    );
    const manual = object(job, "x", { spec: spec({ manualSelector: true }) });
    expect(cleaned(manual)).toEqual(manual);
  });
});

describe("the content of an object", () => {
  it("is one text whatever the order of its fields, and counts bytes of UTF-8", () => {
    const a = contentOf({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "ü", labels: { b: "1", a: "2" } },
    });
    const b = contentOf({
      metadata: { labels: { a: "2", b: "1" }, name: "ü" },
      kind: "ConfigMap",
      apiVersion: "v1",
    });
    expect(a).toEqual(b);
    expect(a.bytes).toBe(a.json.length + 1);
    expect(a.isEnvelope).toBe(false);
  });
  it.each([
    ["placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", {}, true],
    ["placement.kubernetes-fleet.io/v1beta1", "ClusterResourceEnvelope", {}, true],
    ["v1", "ConfigMap", { "kubernetes-fleet.io/envelope-configmap": "true" }, true],
    ["v1", "Secret", { "kubernetes-fleet.io/envelope-configmap": "true" }, false],
  ])("of %s %s with annotations %j is an envelope: %s", (apiVersion, kind, annotations, expected) => {
    expect(contentOf({ apiVersion, kind, metadata: { name: "x", annotations } }).isEnvelope).toBe(expected);
  });
});
