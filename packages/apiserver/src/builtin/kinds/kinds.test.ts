import { describe, expect, it } from "vitest";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import { ServiceAccountTokens } from "#auth/tokens.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { builtinResources } from "#catalog/builtin.ts";
import { FakeKind } from "../strategy.fake.ts";

const { resources, reviews } = builtinResources({
  serviceRanges: ["10.96.0.0/16"],
  serviceAccountTokens: new ServiceAccountTokens({ privateKey: generatePrivateKey() }),
  newUid: () => "id",
});

function definitionOf(kind: string, group?: string): ResourceDefinition {
  const found = resources.find((it) => it.kind === kind && (group === undefined || it.group === group));
  if (found === undefined) throw new Error(kind);
  return found;
}

function object(kind: string, fields: object, metadata: object = {}): ApiObject {
  return {
    apiVersion: "v1",
    kind,
    metadata: { name: "a", namespace: "n", uid: "u-1", ...metadata },
    ...fields,
  };
}

const TEMPLATE = { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "c", image: "x:1" }] } };
const SELECTOR = { matchLabels: { app: "a" } };

describe("the built-in kinds", () => {
  it("are served once each, with the short names of upstream", () => {
    const paths = resources.map((it) => `${it.group}/${it.version}/${it.plural}`);
    expect(new Set(paths).size).toBe(paths.length);
    const shortNames = Object.fromEntries(
      resources
        .filter((it) => it.group !== "events.k8s.io")
        .flatMap((it) => it.shortNames.map((name) => [name, it.plural])),
    );
    expect(shortNames).toMatchObject({
      po: "pods",
      svc: "services",
      ns: "namespaces",
      cm: "configmaps",
      deploy: "deployments",
      rs: "replicasets",
      ds: "daemonsets",
      sts: "statefulsets",
      ep: "endpoints",
      no: "nodes",
      sa: "serviceaccounts",
      crd: "customresourcedefinitions",
      netpol: "networkpolicies",
      pdb: "poddisruptionbudgets",
    });
    const listed = resources.filter((it) => it.categories.includes("all")).map((it) => it.plural);
    expect(listed.toSorted()).toEqual([
      "cronjobs",
      "daemonsets",
      "deployments",
      "horizontalpodautoscalers",
      "jobs",
      "pods",
      "replicasets",
      "replicationcontrollers",
      "services",
      "statefulsets",
    ]);
    expect(reviews.map((it) => it.plural).toSorted()).toEqual([
      "localsubjectaccessreviews",
      "selfsubjectaccessreviews",
      "selfsubjectreviews",
      "selfsubjectrulesreviews",
      "subjectaccessreviews",
      "token",
      "tokenreviews",
    ]);
  });

  it.each<[string, object, object]>([
    ["Namespace", {}, { spec: { finalizers: ["kubernetes"] }, status: { phase: "Active" } }],
    [
      "Secret",
      { stringData: { a: "b" }, data: { c: "ZA==" } },
      { type: "Opaque", data: { a: "Yg==", c: "ZA==" } },
    ],
    [
      "EndpointSlice",
      { addressType: "IPv4", endpoints: [], ports: [{ port: 80 }] },
      { ports: [{ port: 80, protocol: "TCP", name: "" }] },
    ],
    ["Node", { spec: { podCIDRs: ["10.0.0.0/24"] } }, { spec: { podCIDR: "10.0.0.0/24" } }],
    [
      "Deployment",
      { spec: { selector: SELECTOR, template: TEMPLATE } },
      {
        spec: {
          replicas: 1,
          revisionHistoryLimit: 10,
          progressDeadlineSeconds: 600,
          strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "25%", maxUnavailable: "25%" } },
          template: { spec: { restartPolicy: "Always" } },
        },
      },
    ],
    [
      "StatefulSet",
      { spec: { selector: SELECTOR, template: TEMPLATE } },
      { spec: { podManagementPolicy: "OrderedReady", updateStrategy: { rollingUpdate: { partition: 0 } } } },
    ],
    [
      "Job",
      { spec: { template: { spec: { ...TEMPLATE.spec, restartPolicy: "Never" } } } },
      {
        spec: {
          completions: 1,
          parallelism: 1,
          backoffLimit: 6,
          completionMode: "NonIndexed",
          selector: { matchLabels: { "batch.kubernetes.io/controller-uid": "u-1" } },
          template: { metadata: { labels: { "job-name": "a", "batch.kubernetes.io/job-name": "a" } } },
        },
      },
    ],
    [
      "NetworkPolicy",
      { spec: { podSelector: {}, egress: [{ ports: [{ port: 53 }] }] } },
      { spec: { policyTypes: ["Ingress", "Egress"], egress: [{ ports: [{ port: 53, protocol: "TCP" }] }] } },
    ],
    ["PriorityClass", { value: 5 }, { preemptionPolicy: "PreemptLowerPriority" }],
  ])("set the defaults of a new %s", (kind, given, expected) => {
    const { object: made, errors } = new FakeKind(definitionOf(kind)).write(object(kind, given));
    expect(errors).toEqual([]);
    expect(made).toMatchObject(expected);
  });

  it.each<[string, object, string]>([
    ["ConfigMap", { data: { "a/b": "" } }, 'data[a/b]: Invalid value: "a/b"'],
    ["ConfigMap", { data: { a: "" }, binaryData: { a: "" } }, "data[a]: Invalid value"],
    ["Secret", { type: "kubernetes.io/tls", data: {} }, "data[tls.crt]: Required value"],
    ["Secret", { data: { a: "not base64" } }, "data[a]: Invalid value"],
    ["Secret", { data: { a: "A".repeat(1_400_000) } }, "data: Too long: may not be more than 1048576 bytes"],
    ["EndpointSlice", { endpoints: [] }, "addressType: Required value"],
    [
      "EndpointSlice",
      { addressType: "IPv4", endpoints: [{ addresses: [] }] },
      "endpoints[0].addresses: Required value: must contain at least 1 address",
    ],
    [
      "EndpointSlice",
      { addressType: "IPv4", endpoints: [{ addresses: ["fd00::1"] }] },
      'endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an IPv4 address',
    ],
    [
      "EndpointSlice",
      { addressType: "IPv6", endpoints: [{ addresses: ["fe80::1"] }] },
      "endpoints[0].addresses[0]: Invalid value",
    ],
    [
      "EndpointSlice",
      { addressType: "IPv4", endpoints: [], ports: [{ port: 1 }, { port: 2 }] },
      'ports[1].name: Duplicate value: ""',
    ],
    [
      "Endpoints",
      { subsets: [{ addresses: [{ ip: "127.0.0.1" }] }] },
      "subsets[0].addresses[0].ip: Invalid value",
    ],
    [
      "Lease",
      { spec: { leaseDurationSeconds: 0 } },
      "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    ],
    ["Node", { spec: { podCIDRs: ["10.0.0.0/24", "10.1.0.0/24"] } }, "spec.podCIDRs: Invalid value"],
    [
      "Node",
      { spec: { taints: [{ key: "a", effect: "Maybe" }] } },
      'metadata.taints[0].effect: Unsupported value: "Maybe"',
    ],
    ["Deployment", { spec: { template: TEMPLATE } }, "spec.selector: Required value"],
    [
      "Deployment",
      { spec: { selector: {}, template: TEMPLATE } },
      "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
    ],
    [
      "Deployment",
      { spec: { selector: { matchLabels: { app: "b" } }, template: TEMPLATE } },
      'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
    ],
    [
      "Deployment",
      {
        spec: {
          selector: SELECTOR,
          template: { ...TEMPLATE, spec: { ...TEMPLATE.spec, restartPolicy: "Never" } },
        },
      },
      'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ],
    [
      "DaemonSet",
      {
        spec: {
          selector: SELECTOR,
          template: TEMPLATE,
          updateStrategy: { rollingUpdate: { maxUnavailable: 0 } },
        },
      },
      "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
    ],
    [
      "Job",
      { spec: { template: TEMPLATE } },
      'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ],
    [
      "CronJob",
      { spec: { schedule: "* * *", jobTemplate: { spec: { template: TEMPLATE } } } },
      'spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3',
    ],
    ["PodDisruptionBudget", { spec: { minAvailable: 1, maxUnavailable: 1 } }, "spec: Invalid value"],
    [
      "NetworkPolicy",
      {
        spec: {
          podSelector: {},
          ingress: [{ from: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["11.0.0.0/16"] } }] }],
        },
      },
      'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
    ],
    [
      "Ingress",
      { spec: {} },
      "spec: Invalid value: {}: either `defaultBackend` or `rules` must be specified",
    ],
  ])("reject a %s of %j", (kind, given, error) => {
    const errors = new FakeKind(definitionOf(kind)).errorsOf(object(kind, given));
    expect(errors.map((it) => it.slice(0, error.length))).toContain(error);
  });

  it.each<[string, object, object, string]>([
    [
      "ConfigMap",
      { immutable: true, data: { a: "1" } },
      { immutable: true, data: { a: "2" } },
      "data: Forbidden: field is immutable when `immutable` is set",
    ],
    ["ConfigMap", { immutable: true }, {}, "immutable: Forbidden"],
    ["Secret", { type: "Opaque" }, { type: "x/y" }, 'type: Invalid value: "x/y": field is immutable'],
    [
      "EndpointSlice",
      { addressType: "IPv4", endpoints: [] },
      { addressType: "IPv6", endpoints: [] },
      'addressType: Invalid value: "IPv6": field is immutable',
    ],
    [
      "Node",
      { spec: { podCIDR: "10.0.0.0/24" } },
      { spec: { podCIDR: "10.0.1.0/24" } },
      "spec.podCIDRs: Forbidden",
    ],
    [
      "Deployment",
      { spec: { selector: SELECTOR, template: TEMPLATE } },
      {
        spec: {
          selector: { matchLabels: { app: "a", b: "c" } },
          template: { ...TEMPLATE, metadata: { labels: { app: "a", b: "c" } } },
        },
      },
      "spec.selector: Invalid value",
    ],
    [
      "StatefulSet",
      { spec: { selector: SELECTOR, template: TEMPLATE } },
      { spec: { selector: SELECTOR, template: TEMPLATE, serviceName: "x" } },
      "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'",
    ],
    [
      "StorageClass",
      { provisioner: "a" },
      { provisioner: "b" },
      'provisioner: Invalid value: "b": field is immutable',
    ],
  ])("reject a change of a %s from %j to %j", (kind, before, after, error) => {
    const bench = new FakeKind(definitionOf(kind));
    expect(bench.errorsOf(object(kind, before))).toEqual([]);
    expect(bench.errorsOf(object(kind, after)).map((it) => it.slice(0, error.length))).toContain(error);
  });

  it("set the requester of a certificate request, whatever the request contains", () => {
    const spec = {
      request: "Zm9v",
      signerName: "a/b",
      usages: ["client auth"],
      username: "root",
      groups: ["system:masters"],
    };
    const { object: made } = new FakeKind(definitionOf("CertificateSigningRequest")).write(
      object("CertificateSigningRequest", { spec }),
    );
    expect(made["spec"]).toMatchObject({ username: "tester", groups: ["system:authenticated"] });
  });

  it("show one event under both of its groups", () => {
    const core = object("Event", {
      involvedObject: { kind: "Pod", name: "p", namespace: "n" },
      message: "started",
      reportingComponent: "kubelet",
      count: 3,
    });
    const { fromStored, toStored, storedAs } = definitionOf("Event", "events.k8s.io");
    const newer = fromStored?.(core) ?? core;
    expect(newer).toMatchObject({
      apiVersion: "events.k8s.io/v1",
      regarding: { kind: "Pod", name: "p", namespace: "n" },
      note: "started",
      reportingController: "kubelet",
      deprecatedCount: 3,
    });
    expect(toStored?.(newer)).toEqual(core);
    expect(storedAs).toEqual({ group: "", plural: "events" });
    const selectors = definitionOf("Event", "").strategy.fieldSelectors;
    expect(selectors?.["involvedObject.name"]?.(core)).toBe("p");
    expect(
      new FakeKind(definitionOf("Event", "")).errorsOf({ ...core, involvedObject: { namespace: "m" } }),
    ).toEqual(['involvedObject.namespace: Invalid value: "m": does not match event.namespace']);
  });
});
