import { describe, expect, it } from "vitest";
import { defined } from "@fairlead/base/defined.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { bindingOf } from "../rollout/binding.fake.ts";
import { finish } from "@fairlead/base/turn.ts";
import { ContentError, Envelopes, openEnvelope } from "./envelopes.ts";
import { OverrideError, type ResolvedOverride, type ResolvedPatch } from "../overrides/resolve.ts";
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

interface PlanOptions {
  /** Of the placement. */
  readonly namespace?: string;
  readonly overrides?: readonly ResolvedOverride[];
  readonly hasConfigMaps?: boolean;
}

function plan(
  parts: readonly SnapshotPart[],
  { namespace, overrides = [], hasConfigMaps = true }: PlanOptions = {},
) {
  const binding = bindingOf("east", "Bound", { clusterResourceOverrideSnapshots: ["red-0"] });
  const metadata = namespace === undefined ? binding.metadata : { ...binding.metadata, namespace };
  const inputs = { names: "n", contents: "c" };
  return finish(
    planWorks({
      binding: { ...binding, metadata },
      index: "3",
      parts,
      overrides,
      reportBack: undefined,
      inputs,
      envelopes: new Envelopes(hasConfigMaps),
    }),
  );
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
    expect(plan([part(undefined)], { namespace: "team" })).toMatchObject([
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

const ENVELOPE = "kubernetes-fleet.io/envelope-configmap";
/** Each is more than a right in namespace "shop". */
const MORE: readonly (readonly [string, KubeObject])[] = [
  [
    "a ClusterRoleBinding",
    { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding", metadata: { name: "root" } },
  ],
  ["a Namespace", { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } }],
  [
    "a webhook configuration",
    {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "MutatingWebhookConfiguration",
      metadata: { name: "all" },
    },
  ],
  ["an object of another namespace", { ...config("x"), metadata: { namespace: "other", name: "x" } }],
  [
    "an object whose namespace is a list",
    { ...config("x"), metadata: { namespace: ["shop"] as unknown as string, name: "x" } },
  ],
  [
    "an object whose namespace is null",
    { ...config("x"), metadata: { namespace: null as unknown as string, name: "x" } },
  ],
];
const PLACEMENTS = [
  ["ClusterResourcePlacement", undefined],
  ["ResourcePlacement", "shop"],
] as const;
const override = (...patch: readonly ResolvedPatch[]): ResolvedOverride => ({
  snapshot: "ResourceOverrideSnapshot shop/o-0",
  selected: [{ group: "", version: "v1", kind: "ConfigMap", name: "box", namespace: "shop" }],
  steps: [patch],
});

describe.each(PLACEMENTS)("a %s of a right in one namespace", (_, namespace) => {
  describe.each(MORE)("refuses %s", (_what, object) => {
    const data = { x: JSON.stringify(object) };
    it("in a ResourceEnvelope", () => {
      const box = envelope("ResourceEnvelope", { x: object });
      expect(() => plan([part(undefined, box)], { ...defined({ namespace }) })).toThrow(ContentError);
    });
    it("in a ConfigMap, whether or not ConfigMaps are envelopes", () => {
      for (const hasConfigMaps of [true, false])
        expect(() =>
          plan([part(undefined, oldEnvelope(data))], { ...defined({ namespace }), hasConfigMaps }),
        ).toThrow(ContentError);
    });
    it.each([
      ["annotations", { op: "add", path: "/metadata/annotations", value: { [ENVELOPE]: "true" } }],
      [
        "annotation",
        { op: "add", path: "/metadata/annotations/kubernetes-fleet.io~1envelope-configmap", value: "true" },
      ],
      [
        "annotations that it replaces",
        { op: "replace", path: "/metadata/annotations", value: { [ENVELOPE]: "true" } },
      ],
      [
        "metadata",
        {
          op: "add",
          path: "/metadata",
          value: { namespace: "shop", name: "box", annotations: { [ENVELOPE]: "true" } },
        },
      ],
      ["whole object", { op: "replace", path: "", value: oldEnvelope(data) }],
    ] as const)("in a ConfigMap that an override makes an envelope by its %s", (_path, patch) => {
      const box = config("box", {
        metadata: { namespace: "shop", name: "box", annotations: { a: "b" } },
        data,
      });
      const overrides = [override(patch)];
      // A patch of the whole object is malformed where an object must be there first.
      expect(() => plan([part(undefined, box)], { ...defined({ namespace }), overrides })).toThrow(
        OverrideError,
      );
    });
  });
  it("gives the member the namespace of an envelope as the only one", () => {
    const works = plan([part(undefined, envelope("ResourceEnvelope", { quota }))], {
      ...defined({ namespace }),
    });
    expect(works.map((it) => it.spec.namespace)).toEqual([namespace, "shop"]);
  });
});

describe("a ResourcePlacement", () => {
  it.each(MORE)("refuses %s in a snapshot that others wrote", (_, object) => {
    expect(() => plan([part(undefined, object)], { namespace: "shop" })).toThrow(ContentError);
  });
  it("refuses an envelope of cluster-scoped objects in a snapshot that others wrote", () => {
    const box = envelope("ClusterResourceEnvelope", { role }, {});
    expect(() => plan([part(undefined, box)], { namespace: "shop" })).toThrow(ContentError);
  });
});

describe("a hub that does not open ConfigMaps", () => {
  it("refuses one with the annotation, and says what to do", () => {
    const box = oldEnvelope({ x: JSON.stringify(quota) });
    expect(() => plan([part(undefined, box)], { hasConfigMaps: false })).toThrow(
      'ConfigMap "shop/box" has the annotation kubernetes-fleet.io/envelope-configmap, and this hub does not open ConfigMaps: put the objects into a ResourceEnvelope or a ClusterResourceEnvelope, or start the hub with --configmap-envelopes',
    );
  });
  it("places one whose annotation says no", () => {
    const box = config("box", {
      metadata: { namespace: "shop", name: "box", annotations: { [ENVELOPE]: "false" } },
    });
    expect(plan([part(undefined, box)], { hasConfigMaps: false })[0]?.spec.workload?.manifests).toEqual([
      box,
    ]);
  });
});

describe("an override of an envelope", () => {
  const box = oldEnvelope({ x: JSON.stringify(quota) });
  it("changes what is in it, and nothing else of it", () => {
    const value = JSON.stringify({ ...quota, spec: { hard: { pods: "1" } } });
    const works = plan([part(undefined, box)], {
      overrides: [override({ op: "add", path: "/data/x", value })],
    });
    expect(works[1]?.spec.workload?.manifests).toMatchObject([{ spec: { hard: { pods: "1" } } }]);
  });
  it.each(["/metadata/annotations", "/metadata/annotations/kubernetes-fleet.io~1envelope-configmap"])(
    "cannot make it an ordinary ConfigMap by %s",
    (path) => {
      expect(() => plan([part(undefined, box)], { overrides: [override({ op: "remove", path })] })).toThrow(
        OverrideError,
      );
    },
  );
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
  it("is opened once for all clusters that get it", () => {
    const envelopes = new Envelopes(true);
    const box = oldEnvelope({ x: JSON.stringify(quota) });
    expect(envelopes.open(box)).toBe(envelopes.open(box));
  });
  it("reads YAML as Kubernetes does, and refuses a key that is there twice", () => {
    const text =
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: shop, name: a}\ndata: {mode: 0777}\n";
    expect(openEnvelope(oldEnvelope({ x: text })).manifests).toMatchObject([{ data: { mode: 511 } }]);
    expect(() => openEnvelope(oldEnvelope({ x: `${text}kind: Secret\n` }))).toThrow("has a key twice");
  });
  it("has a bounded length of YAML over all keys, and a longer one of JSON", () => {
    const object = (at: number, length: number) =>
      JSON.stringify(config(`c${at}`, { data: { a: "x".repeat(length) } }));
    const yaml = (at: number) => `# YAML\n${object(at, 30_000)}`;
    expect(openEnvelope(oldEnvelope({ a: yaml(1), b: yaml(2) })).manifests).toHaveLength(2);
    expect(() => openEnvelope(oldEnvelope({ a: yaml(1), b: yaml(2), c: yaml(3) }))).toThrow(
      'data["c"] is too long: an envelope has at most 65536 characters of YAML in all, and 1048576 of JSON in each key',
    );
    expect(openEnvelope(oldEnvelope({ a: object(1, 900_000) })).manifests).toHaveLength(1);
    expect(() => openEnvelope(oldEnvelope({ a: object(1, 1_100_000) }))).toThrow("is too long");
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
