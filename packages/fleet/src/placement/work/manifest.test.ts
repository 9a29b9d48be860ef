import { describe, expect, it } from "vitest";
import { LAST_APPLIED_ANNOTATION, SPEC_HASH_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import { readManifests } from "./manifest.ts";

const of = (kind: string, metadata: object, more: object = {}): object => ({
  apiVersion: "v1",
  kind,
  metadata,
  ...more,
});
const read = (...objects: unknown[]): [reason: string, message: string][] =>
  readManifests(objects).refused.map((it) => [it.reason, it.message]);
const RBAC = "rbac.authorization.k8s.io/v1";

describe("manifests", () => {
  it("are read without what only a server writes, and without owners", () => {
    const metadata = {
      name: "c",
      namespace: "n",
      uid: "u",
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: "2026-01-01T00:00:00Z",
      managedFields: [],
      ownerReferences: [{ kind: "x" }],
      labels: { a: "1" },
      annotations: { [SPEC_HASH_ANNOTATION]: "h", [LAST_APPLIED_ANNOTATION]: "{}", kept: "1" },
    };
    const { manifests, refused } = readManifests([
      of("ConfigMap", metadata, { data: { a: "1" }, status: {} }),
    ]);
    expect(refused).toEqual([]);
    expect(manifests[0]?.object).toEqual(
      of(
        "ConfigMap",
        { name: "c", namespace: "n", labels: { a: "1" }, annotations: { kept: "1" } },
        { data: { a: "1" } },
      ),
    );
  });

  it("have one hash for one content, in any order of fields", () => {
    const [a, b, c] = [
      of("ConfigMap", { name: "c", namespace: "n" }, { data: { a: "1", b: "2" } }),
      {
        kind: "ConfigMap",
        data: { b: "2", a: "1" },
        metadata: { namespace: "n", name: "c", uid: "u" },
        apiVersion: "v1",
      },
      of("ConfigMap", { name: "c", namespace: "n" }, { data: { a: "1", b: "3" } }),
    ].map((it) => readManifests([it]).manifests[0]?.hash);
    expect(a).toBe(b);
    expect(a).not.toBe(c);
  });

  it("have the stringData of a Secret where it is when read: in data", () => {
    const secret = of(
      "Secret",
      { name: "s", namespace: "n" },
      { data: { a: "YQ==" }, stringData: { b: "b" } },
    );
    expect(readManifests([secret]).manifests[0]?.object).toMatchObject({ data: { a: "YQ==", b: "Yg==" } });
  });

  it.each<[reason: string, what: string, manifest: unknown]>([
    ["DecodingErred", "null", null],
    ["DecodingErred", "a text", "x"],
    ["DecodingErred", "a list", []],
    ["DecodingErred", "nested maps without end", JSON.parse(`${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`)],
    ["DecodingErred", "no kind", { apiVersion: "v1", metadata: { name: "x" } }],
    ["DecodingErred", "no apiVersion", { kind: "ConfigMap", metadata: { name: "x" } }],
    ["DecodingErred", "no name", of("ConfigMap", { namespace: "n" })],
    ["DecodingErred", "a name that is a number", of("ConfigMap", { name: 1 })],
    ["DecodingErred", "a name that leads elsewhere", of("ConfigMap", { name: "..", namespace: "n" })],
    [
      "DecodingErred",
      "a namespace that leads elsewhere",
      of("ConfigMap", { name: "x", namespace: "a/../kube-system" }),
    ],
    ["FoundGenerateName", "a generated name", of("ConfigMap", { generateName: "x-", namespace: "n" })],
    [
      "ManifestApplyFailed",
      "a namespace of the cluster",
      of("ConfigMap", { name: "x", namespace: "kube-system" }),
    ],
    [
      "ManifestApplyFailed",
      "a namespace of the fleet",
      of("Secret", { name: "x", namespace: "fleet-system" }),
    ],
    ["ManifestApplyFailed", "a reserved Namespace", of("Namespace", { name: "kube-public" })],
    [
      "ManifestApplyFailed",
      "an AppliedWork",
      { apiVersion: "placement.kubernetes-fleet.io/v1beta1", kind: "AppliedWork", metadata: { name: "x" } },
    ],
    [
      "ManifestApplyFailed",
      "the definition of AppliedWorks",
      {
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: { name: "appliedworks.placement.kubernetes-fleet.io" },
      },
    ],
    [
      "ManifestApplyFailed",
      "a role of the agent",
      { apiVersion: RBAC, kind: "ClusterRole", metadata: { name: "fairlead-member" } },
    ],
    [
      "ManifestApplyFailed",
      "a binding of the cluster",
      { apiVersion: RBAC, kind: "ClusterRoleBinding", metadata: { name: "system:node" } },
    ],
    [
      "ManifestApplyFailed",
      "rights for an account of a reserved namespace",
      {
        apiVersion: RBAC,
        kind: "RoleBinding",
        metadata: { name: "x", namespace: "n" },
        subjects: [
          { kind: "User", name: "u" },
          { kind: "ServiceAccount", name: "fairlead-member", namespace: "fleet-system" },
        ],
      },
    ],
  ])("are refused as %s: %s", (reason, _, manifest) => {
    const [[found, message] = []] = read(manifest);
    expect(found).toBe(reason);
    expect(message).toMatch(/^[^.].{20}/);
  });

  const binding = (subject: object): object => ({
    apiVersion: RBAC,
    kind: "ClusterRoleBinding",
    metadata: { name: "x" },
    subjects: [{ kind: "User", name: "u" }, subject],
  });
  it.each([
    { kind: "User", name: "system:serviceaccount:fleet-system:fairlead-member" },
    { kind: "User", name: "system:kube-controller-manager" },
    { kind: "User", name: "system:anonymous" },
    { kind: "User", name: "system:node:n" },
    { kind: "Group", name: "system:serviceaccounts:kube-system" },
    { kind: "Group", name: "system:serviceaccounts" },
    { kind: "Group", name: "system:authenticated" },
    { kind: "Group", name: "system:unauthenticated" },
    { kind: "Group", name: "system:masters" },
    { kind: "Group", name: "system:nodes" },
  ])("are refused if they give rights to $kind $name", (subject) => {
    expect(read(binding(subject))).toEqual([
      ["ManifestApplyFailed", expect.stringContaining(`gives rights to ${subject.kind} ${subject.name}, `)],
    ]);
  });
  it.each([
    { kind: "User", name: "system:serviceaccount:shop:web" },
    { kind: "Group", name: "system:serviceaccounts:shop" },
    { kind: "Group", name: "team" },
    { kind: "User", name: "systemd" },
    { kind: "ServiceAccount", namespace: "shop", name: "web" },
  ])("are applied if they give rights to $kind $name", (subject) => {
    expect(read(binding(subject))).toEqual([]);
  });

  const rule = (more: object = {}): object => ({
    apiGroups: ["*"],
    apiVersions: ["*"],
    resources: ["*"],
    operations: ["*"],
    ...more,
  });
  const hook = (kind: string, ...webhooks: readonly object[]): object => ({
    apiVersion: "admissionregistration.k8s.io/v1",
    kind,
    metadata: { name: "x" },
    webhooks,
  });
  const by = (operator: string, ...values: readonly string[]): object => ({
    matchExpressions: [
      { key: "kubernetes.io/metadata.name", operator, ...(values.length === 0 ? {} : { values }) },
    ],
  });
  it.each([
    ["everything", { rules: [rule()] }],
    [
      "Secrets",
      { rules: [rule({ apiGroups: ["example.com"] }), rule({ apiGroups: [""], resources: ["secrets"] })] },
    ],
    ["all namespaces by an empty selector", { rules: [rule()], namespaceSelector: {} }],
    ["all namespaces with a name", { rules: [rule()], namespaceSelector: by("Exists") }],
    ["all namespaces but one", { rules: [rule()], namespaceSelector: by("NotIn", "kube-system") }],
    ["the agent's namespace", { rules: [rule()], namespaceSelector: by("In", "fleet-system") }],
  ])("are refused if they are webhooks of %s", (_, webhook) => {
    for (const kind of ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
      expect(read(hook(kind, { rules: [] }, webhook))).toEqual([
        [
          "ManifestApplyFailed",
          expect.stringContaining(`${kind} x intercepts objects of namespace fleet-system`),
        ],
      ]);
  });
  it.each([
    ["of a group of their own", { rules: [rule({ apiGroups: ["cert-manager.io"] })] }],
    ["of cluster-scoped objects", { rules: [rule({ scope: "Cluster" })] }],
    ["of other namespaces", { rules: [rule()], namespaceSelector: by("NotIn", "fleet-system") }],
    ["of namespaces with a label", { rules: [rule()], namespaceSelector: { matchLabels: { team: "a" } } }],
  ])("are applied if they are webhooks %s", (_, webhook) => {
    expect(read(hook("MutatingWebhookConfiguration", webhook))).toEqual([]);
  });
  it("are refused if they are policies that change objects of the agent's namespace", () => {
    const policy = (matchConstraints: object): object => ({
      apiVersion: "admissionregistration.k8s.io/v1alpha1",
      kind: "MutatingAdmissionPolicy",
      metadata: { name: "x" },
      spec: { matchConstraints },
    });
    expect(read(policy({ resourceRules: [rule()] }))).toHaveLength(1);
    expect(read(policy({ resourceRules: [rule()], namespaceSelector: by("NotIn", "fleet-system") }))).toEqual(
      [],
    );
  });

  it.each([
    ["a cluster-scoped object", { apiVersion: RBAC, kind: "ClusterRole", metadata: { name: "x" } }],
    ["a Namespace", of("Namespace", { name: "shop" })],
    ["an object of another namespace", of("ConfigMap", { name: "x", namespace: "other" })],
  ])("are refused if the Work is limited to a namespace and has %s", (_, manifest) => {
    const { manifests, refused } = readManifests(
      [of("ConfigMap", { name: "x", namespace: "shop" }), manifest],
      "shop",
    );
    expect(manifests.map((it) => it.name)).toEqual(["x"]);
    expect(refused.map((it) => [it.reason, it.message])).toEqual([
      ["ManifestApplyFailed", expect.stringContaining("is not in namespace shop")],
    ]);
  });

  it("are applied where only the beginning of a name looks reserved", () => {
    expect(
      read(of("Namespace", { name: "kubernetes" }), of("ConfigMap", { name: "kube-x", namespace: "fleet" })),
    ).toEqual([]);
  });

  it("are applied once where one object is there twice, in whatever version", () => {
    const hpa = (version: string): object => ({
      apiVersion: `autoscaling/${version}`,
      kind: "HorizontalPodAutoscaler",
      metadata: { name: "h", namespace: "n" },
    });
    const { manifests, refused } = readManifests([hpa("v1"), hpa("v2")]);
    expect(manifests.map((it) => it.version)).toEqual(["v1"]);
    expect(refused.map((it) => [it.reason, it.identifier.ordinal])).toEqual([["Duplicated", 1]]);
  });
});
