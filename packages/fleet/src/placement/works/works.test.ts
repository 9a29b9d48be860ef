import { describe, expect, it } from "vitest";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { bindingOf } from "../rollout/binding.fake.ts";
import { openEnvelope } from "./envelopes.ts";
import { areMadeFrom, inputsOf, writeInputs } from "./inputs.ts";
import { planWorks, type SnapshotPart } from "./plan.ts";

const config = (name: string, more: object = {}): KubeObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace: "shop", name },
  ...more,
});
const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata: { namespace: "shop", name: "quota" } };
const role = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRole",
  metadata: { name: "reader" },
};
const envelope = (kind: string, data: object, metadata: object = { namespace: "shop" }): KubeObject =>
  ({
    apiVersion: "placement.kubernetes-fleet.io/v1beta1",
    kind,
    metadata: { name: "box", ...metadata },
    data,
  }) as KubeObject;
const oldEnvelope = (data: object): KubeObject =>
  config("box", {
    metadata: {
      namespace: "shop",
      name: "box",
      annotations: { "kubernetes-fleet.io/envelope-configmap": "true" },
    },
    data,
  });

function plan(parts: readonly SnapshotPart[], namespace?: string) {
  const binding = bindingOf("east", "Bound", { clusterResourceOverrideSnapshots: ["red-0"] });
  const metadata = namespace === undefined ? binding.metadata : { ...binding.metadata, namespace };
  const inputs = { names: "n", contents: "c" };
  return planWorks({
    binding: { ...binding, metadata },
    index: "3",
    parts,
    overrides: [],
    reportBack: undefined,
    inputs,
  });
}
const part = (subindex: string | undefined, ...resources: readonly KubeObject[]): SnapshotPart => ({
  name: subindex === undefined ? "app-3-snapshot" : `app-3-${subindex}`,
  subindex,
  resources,
});

describe("the Works of a binding", () => {
  it("are one for each part of the snapshot, in the mailbox of the cluster", () => {
    const works = plan([part(undefined, config("one")), part("0", config("two"))]);
    expect(works.map((it) => `${it.metadata.namespace}/${it.metadata.name}`)).toEqual([
      "fleet-member-east/app-work",
      "fleet-member-east/app-0",
    ]);
    expect(works.map((it) => it.spec.workload?.manifests)).toEqual([[config("one")], [config("two")]]);
  });
  it("of a ResourcePlacement have its namespace in their names and labels", () => {
    expect(plan([part(undefined)], "team")).toMatchObject([
      {
        metadata: {
          name: "team.app-work",
          labels: { "kubernetes-fleet.io/parent-placement-namespace": "team" },
        },
      },
    ]);
  });
  it("have the labels and annotations of KubeFleet", () => {
    expect(plan([part(undefined)])[0]?.metadata).toEqual({
      name: "app-work",
      namespace: "fleet-member-east",
      labels: {
        "kubernetes-fleet.io/parent-CRP": "app",
        "kubernetes-fleet.io/parent-resource-binding": "app-east",
        "kubernetes-fleet.io/parent-resource-snapshot-index": "3",
      },
      annotations: {
        "kubernetes-fleet.io/parent-resource-snapshot-name": "app-3-snapshot",
        "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash": expect.stringMatching(
          /^[\da-f]{32}$/,
        ) as unknown,
        "kubernetes-fleet.io/parent-resource-override-snapshot-hash": expect.stringMatching(
          /^[\da-f]{32}$/,
        ) as unknown,
        "fairlead.dev/work-inputs": "n.c.1",
      },
    });
  });
  it("are one even where nothing is selected, so that the cluster reports", () => {
    expect(plan([part(undefined)])).toMatchObject([{ spec: { workload: { manifests: [] } } }]);
  });
  it.each([
    ["ClusterResourceEnvelope", envelope("ClusterResourceEnvelope", { role }, {}), [role], {}],
    [
      "ResourceEnvelope",
      envelope("ResourceEnvelope", { quota }),
      [quota],
      { "kubernetes-fleet.io/envelope-namespace": "shop" },
    ],
    [
      "ConfigMap",
      oldEnvelope({ "quota.yaml": JSON.stringify(quota) }),
      [quota],
      { "kubernetes-fleet.io/envelope-namespace": "shop" },
    ],
  ])("are one of its own for each %s, which is not placed itself", (type, box, manifests, labels) => {
    const [plain, own] = plan([part(undefined, box, config("one"))]);
    expect(plain?.spec.workload?.manifests).toEqual([config("one")]);
    expect(own).toMatchObject({
      metadata: {
        name: expect.stringMatching(/^app-envelope-[\da-f]{16}$/) as unknown,
        labels: {
          "kubernetes-fleet.io/envelope-work": type,
          "kubernetes-fleet.io/envelope-name": "box",
          ...labels,
        },
        annotations: { "fairlead.dev/work-inputs": "n.c.2" },
      },
      spec: { workload: { manifests } },
    });
  });
  it("have the same names each time, and other envelopes other names", () => {
    const names = (name: string) =>
      plan([part(undefined, envelope("ResourceEnvelope", { quota }, { namespace: "shop", name }))]).map(
        (it) => it.metadata.name,
      );
    expect(names("box")).toEqual(names("box"));
    expect(names("box")[1]).not.toBe(names("case")[1]);
  });
});

describe("an envelope", () => {
  const inShop = { namespace: "shop" };
  it("gives its objects in the order of their keys", () => {
    const box = envelope("ResourceEnvelope", { b: config("b"), a: config("a") });
    expect(openEnvelope(box).manifests.map((it) => it.metadata.name)).toEqual(["a", "b"]);
  });
  it.each([
    [
      "a namespaced object among cluster-scoped ones",
      envelope("ClusterResourceEnvelope", { x: quota }, {}),
      /ResourceQuota "quota" has the namespace "shop": only cluster-scoped/,
    ],
    [
      "a cluster-scoped object among namespaced ones",
      envelope("ResourceEnvelope", { x: role }),
      /ClusterRole "reader" has no namespace/,
    ],
    [
      "an object of another namespace",
      envelope("ResourceEnvelope", { x: quota }, { namespace: "other" }),
      /has the namespace "shop", the envelope "other"/,
    ],
    [
      "an object of another namespace in a ConfigMap",
      oldEnvelope({ x: JSON.stringify({ ...quota, metadata: { ...quota.metadata, namespace: "other" } }) }),
      /has the namespace "other"/,
    ],
    [
      "text that is not YAML",
      oldEnvelope({ x: "a: b: c" }),
      /ConfigMap "shop\/box": data\["x"\] is not YAML or JSON/,
    ],
    ["a list", oldEnvelope({ x: "[]" }), /is not an object with metadata/],
    [
      "an object without a kind",
      envelope("ResourceEnvelope", { x: { apiVersion: "v1", metadata: inShop } }),
      /has no kind/,
    ],
    [
      "an object without a name",
      envelope("ResourceEnvelope", { x: { apiVersion: "v1", kind: "Secret", metadata: inShop } }),
      /has no metadata.name/,
    ],
    [
      "a name that is too long for a label",
      envelope("ResourceEnvelope", { x: quota }, { namespace: "shop", name: "n".repeat(64) }),
      /more than 63 characters/,
    ],
  ])("with %s is an error that names the key", (_, box, problem) => {
    expect(() => openEnvelope(box)).toThrow(problem);
  });
  it("does not tell its text in errors: it may hold a secret", () => {
    expect(() => openEnvelope(oldEnvelope({ x: "kind: Secret\nstringData: {password: hunter2: x" }))).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("hunter2") as unknown }),
    );
  });
  it("is not expanded by aliases without bound", () => {
    const lines = Array.from(
      { length: 9 },
      (_, at) =>
        `k${at}: &k${at} [${Array(9)
          .fill(at === 0 ? "x" : `*k${at - 1}`)
          .join(",")}]`,
    );
    const bomb = lines.join("\n");
    expect(() => openEnvelope(oldEnvelope({ x: bomb }))).toThrow(/is not YAML or JSON/);
  });
});

describe("the inputs of Works", () => {
  const spec = bindingOf("east", "Bound").spec;
  const inputs = inputsOf(spec, undefined, ["hash"]);
  const two = writeInputs(inputs, 2);
  it.each([
    ["all Works say them", [two, two], true],
    ["one is missing", [two], false],
    ["one is of something else", [two, "x.y.2"], false],
    ["one does not say any", [two, undefined], false],
    ["there are none", [], false],
  ])("are met or not, where %s", (_, annotations, isMet) => {
    expect(areMadeFrom(inputs, annotations)).toBe(isMet);
  });
  it("are met while the contents cannot be seen, if the names are the same", () => {
    expect(areMadeFrom(inputsOf(spec, undefined, undefined), [two, two])).toBe(true);
    expect(
      areMadeFrom(inputsOf({ ...spec, resourceSnapshotName: "app-1-snapshot" }, undefined, undefined), [
        two,
        two,
      ]),
    ).toBe(false);
  });
  it.each([
    ["snapshot", inputsOf({ ...spec, resourceSnapshotName: "app-1-snapshot" }, undefined, ["hash"])],
    [
      "cluster-scoped override",
      inputsOf({ ...spec, clusterResourceOverrideSnapshots: ["x"] }, undefined, ["hash"]),
    ],
    [
      "override",
      inputsOf({ ...spec, resourceOverrideSnapshots: [{ name: "x", namespace: "y" }] }, undefined, ["hash"]),
    ],
    [
      "apply strategy",
      inputsOf({ ...spec, applyStrategy: { type: "ServerSideApply" } }, undefined, ["hash"]),
    ],
    ["strategy of reports", inputsOf(spec, { type: "Mirror", destination: "WorkAPI" }, ["hash"])],
    ["content", inputsOf(spec, undefined, ["other"])],
  ])("change with the %s", (_, other) => {
    expect(areMadeFrom(other, [two, two])).toBe(false);
  });
});
