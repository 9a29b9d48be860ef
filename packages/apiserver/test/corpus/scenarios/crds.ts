import { ANYTHING, definition, DEFINITIONS, served, widgetDefinition, WIDGETS } from "../definitions.ts";
import { area, del, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const ITEM = `${DEFINITIONS}/widgets.$id.example.com`;
const of = { namespaced: false };

const widget = (name: string, more: object = {}, version = "v1"): object => ({
  apiVersion: `$id.example.com/${version}`,
  kind: "Widget",
  metadata: { name },
  ...more,
});

/** Whether a condition of a definition has this status. */
function hasCondition(type: string, status = "True"): (body: unknown) => boolean {
  return (body) => {
    const { status: state } = body as {
      status?: { conditions?: readonly { type: string; status: string }[] };
    };
    return state?.conditions?.some((it) => it.type === type && it.status === status) ?? false;
  };
}

const refused = (manifest: object): Step =>
  post(`${DEFINITIONS}?dryRun=All`, manifest, {
    view: (body) => ((body as { kind: string }).kind === "Status" ? body : "accepted"),
  });
const refusedSchema = (schema: object): Step => refused(widgetDefinition(schema));
const spec = (more: object): object => widgetDefinition(ANYTHING, { spec: more });
const object = (properties: object, more: object = {}): object => ({ type: "object", properties, ...more });

const VALUES = object({
  spec: object(
    {
      text: { type: "string", minLength: 2, maxLength: 4, pattern: "^[a-z]+$" },
      choice: { type: "string", enum: ["a", "b"] },
      whole: { type: "integer", minimum: 1, maximum: 5, exclusiveMaximum: true },
      number: { type: "number", multipleOf: 0.5 },
      flag: { type: "boolean" },
      list: { type: "array", minItems: 1, maxItems: 2, items: { type: "string" } },
      set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
      map: {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        items: object({ name: { type: "string" }, value: { type: "integer" } }, { required: ["name"] }),
      },
      labels: { type: "object", additionalProperties: { type: "string" }, maxProperties: 2 },
      port: { "x-kubernetes-int-or-string": true },
      nothing: { type: "string", nullable: true },
      date: { type: "string", format: "date-time" },
      address: { type: "string", format: "ipv4" },
      small: { type: "integer", format: "int32" },
      either: object(
        { x: { type: "string" }, y: { type: "string" } },
        { oneOf: [{ required: ["x"] }, { required: ["y"] }] },
      ),
    },
    { required: ["text"] },
  ),
});

export const scenarios = area("crds", [
  scenario(
    "a CustomResourceDefinition is accepted, established, changed and deleted",
    [
      post(DEFINITIONS, widgetDefinition(), { view: specOf }),
      get(ITEM, { until: hasCondition("Established") }),
      patch("merge", ITEM, { spec: { names: { shortNames: ["w$id"] } } }, { view: specOf }),
      get(ITEM, {
        until: (body) =>
          ((body as { status?: { acceptedNames?: { shortNames?: unknown } } }).status?.acceptedNames
            ?.shortNames ?? undefined) !== undefined,
      }),
      patch("merge", ITEM, { spec: { group: "other.example.com" } }),
      patch("merge", ITEM, { spec: { scope: "Cluster" } }),
      patch("merge", ITEM, { spec: { names: { plural: "gadgets" } } }),
      patch("merge", ITEM, { spec: { names: { kind: "Gadget" } } }, { view: specOf }),
      del(ITEM, undefined, {
        view: (body) => ((body as { status: unknown }).status === "Success" ? body : specOf(body)),
      }),
      get(ITEM, { until: (body) => (body as { kind: string }).kind === "Status" }),
    ],
    of,
  ),
  scenario(
    "names of another definition",
    [
      definition(widgetDefinition(), "/apis/$id.example.com/v1/widgets"),
      post(DEFINITIONS, widgetDefinition(), {}),
      post(
        DEFINITIONS,
        {
          ...widgetDefinition(ANYTHING, {
            spec: { names: { plural: "gadgets", kind: "Widget", shortNames: ["widgets"] } },
          }),
          metadata: { name: "gadgets.$id.example.com" },
        },
        { view: specOf },
      ),
      get(`${DEFINITIONS}/gadgets.$id.example.com`, { until: hasCondition("NamesAccepted", "False") }),
    ],
    of,
  ),
  scenario(
    "definitions that are rejected",
    [
      refused({ ...widgetDefinition(), metadata: { name: "gadgets.$id.example.com" } }),
      refused(spec({ versions: [] })),
      refused(spec({ scope: "Universe" })),
      refused(spec({ group: "A_b" })),
      refused(spec({ names: { plural: "widgets" } })),
      refused(spec({ names: { plural: "widgets", kind: "W_idget" } })),
      refused(spec({ names: { plural: "widgets", kind: "Widget", listKind: "Widget" } })),
      refused(spec({ names: { plural: "widgets", kind: "Widget", shortNames: ["W"], categories: ["A B"] } })),
      refused(widgetDefinition(ANYTHING, { version: { storage: false } })),
      refused(widgetDefinition(ANYTHING, { version: { name: "V1" } })),
      refused(widgetDefinition(ANYTHING, { version: { schema: undefined } })),
      refused(
        spec({
          versions: ["v1", "v1"].map((name) => ({
            name,
            served: true,
            storage: true,
            schema: { openAPIV3Schema: ANYTHING },
          })),
        }),
      ),
      refused(spec({ conversion: { strategy: "Sometimes" } })),
      refused(spec({ conversion: { strategy: "Webhook" } })),
      refused(spec({ preserveUnknownFields: true })),
      refused(widgetDefinition(ANYTHING, { version: { subresources: { scale: {} } } })),
      refused(
        widgetDefinition(ANYTHING, {
          version: {
            subresources: { scale: { specReplicasPath: "spec.r", statusReplicasPath: ".status.r[0]" } },
          },
        }),
      ),
      refused(
        widgetDefinition(ANYTHING, { version: { additionalPrinterColumns: [{ name: "A", type: "text" }] } }),
      ),
      refused(
        widgetDefinition(ANYTHING, {
          version: {
            additionalPrinterColumns: [{ name: "A", type: "string", jsonPath: ".a[", format: "x" }],
          },
        }),
      ),
      refused(widgetDefinition(ANYTHING, { version: { selectableFields: [{ jsonPath: ".spec.a" }] } })),
      refused(widgetDefinition(ANYTHING, { version: { deprecationWarning: "old" } })),
      refused({}),
      refused({ ...widgetDefinition(), spec: {} }),
    ],
    of,
  ),
  scenario(
    "groups that need approval",
    [
      post(
        DEFINITIONS,
        {
          ...widgetDefinition(ANYTHING, { spec: { group: "$id.k8s.io" } }),
          metadata: { name: "widgets.$id.k8s.io" },
        },
        {},
      ),
      post(
        DEFINITIONS,
        {
          ...widgetDefinition(ANYTHING, { spec: { group: "$id.k8s.io" } }),
          metadata: {
            name: "widgets.$id.k8s.io",
            annotations: { "api-approved.kubernetes.io": "unapproved, experimental-only" },
          },
        },
        { view: specOf },
      ),
      get(`${DEFINITIONS}/widgets.$id.k8s.io`, {
        until: (body) =>
          hasCondition("KubernetesAPIApprovalPolicyConformant", "False")(body) &&
          hasCondition("Established")(body),
        view: conditionsOf,
      }),
    ],
    of,
  ),
  scenario(
    "schemas that are not structural, or forbidden",
    [
      {},
      { type: "string" },
      { type: "array", items: { type: "string" } },
      object({ a: {} }),
      object({ a: { type: "text" } }),
      object({ a: { type: "array" } }),
      object({ a: { type: "array", items: [{ type: "string" }] } }),
      object({ a: { type: "object", properties: {}, additionalProperties: { type: "string" } } }),
      object({ a: { type: "object", additionalProperties: false } }),
      object({ a: { $ref: "#/x" } }),
      object({ a: { type: "array", uniqueItems: true, items: { type: "string" } } }),
      object({ a: { type: "string", pattern: "(" } }),
      object({ a: { type: "string", default: 1 } }),
      object({ a: { type: "string", enum: ["x"], default: "y" } }),
      object({ a: { type: "string", nullable: false, default: null } }),
      object({ metadata: object({ labels: { type: "object" } }) }),
      object({ metadata: object({ name: { type: "string", pattern: "^a" } }) }),
      object({ a: { anyOf: [{ type: "string" }, { type: "integer" }] } }),
      object({ a: { type: "object", allOf: [{ properties: { b: { type: "string" } } }] } }),
      object({ a: { type: "object", not: { properties: { b: {} } }, properties: {} } }),
      object({ a: { "x-kubernetes-int-or-string": true, type: "string" } }),
      object({ a: { type: "array", "x-kubernetes-list-type": "map", items: { type: "object" } } }),
      object({ a: { type: "array", "x-kubernetes-list-type": "heap", items: { type: "string" } } }),
      object({
        a: {
          type: "array",
          "x-kubernetes-list-type": "set",
          items: { type: "array", items: { type: "string" } },
        },
      }),
      object({ a: { type: "string", "x-kubernetes-list-type": "set" } }),
      object({ a: { type: "string", "x-kubernetes-map-type": "atomic" } }),
      object({ a: { type: "object", "x-kubernetes-map-type": "sparse" } }),
      object({ a: { type: "array", "x-kubernetes-list-map-keys": ["x"], items: { type: "string" } } }),
      object({
        a: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["x", "y"],
          items: object({ x: { type: "string" }, y: { type: "object" } }),
        },
      }),
      object({ a: { type: "object", "x-kubernetes-embedded-resource": true } }),
      object({ a: { type: "object", "x-kubernetes-preserve-unknown-fields": false } }),
      object({ a: { type: "string", format: "made-up" } }),
      object({ a: { type: "string", minLength: -1, maxLength: 1 } }),
      object({ a: { type: "integer", multipleOf: 0 } }),
      object({ status: { type: "string" } }),
    ].map(refusedSchema),
    of,
  ),
  scenario("values are validated by the schema", [
    definition(widgetDefinition(VALUES)),
    ...[
      {},
      { text: "a" },
      { text: "abcde" },
      { text: "AB" },
      { text: 5 },
      { text: null },
      { text: "ok", choice: "c" },
      { text: "ok", whole: 0 },
      { text: "ok", whole: 5 },
      { text: "ok", whole: 1.5 },
      { text: "ok", whole: "1" },
      { text: "ok", number: 0.75 },
      { text: "ok", flag: "true" },
      { text: "ok", list: [] },
      { text: "ok", list: ["a", "b", "c"] },
      { text: "ok", list: ["a", 1] },
      { text: "ok", list: {} },
      { text: "ok", set: ["a", "b", "a"] },
      { text: "ok", map: [{ name: "a" }, { name: "b" }, { name: "a", value: 2 }] },
      { text: "ok", map: [{ value: 1 }] },
      { text: "ok", labels: { a: 1 } },
      { text: "ok", labels: { a: "1", b: "2", c: "3" } },
      { text: "ok", port: true },
      { text: "ok", date: "yesterday" },
      { text: "ok", address: "1.2.3" },
      { text: "ok", small: 3_000_000_000 },
      { text: "ok", either: {} },
      { text: "ok", either: { x: "1", y: "2" } },
      { text: "ok", nothing: null, choice: null },
    ].map((it, index) => post(WIDGETS, widget(`w${index}`, { spec: it }))),
    post(WIDGETS, widget("w-none")),
    post(WIDGETS, widget("w-null", { spec: null })),
    post(WIDGETS, widget("w-text", { spec: "x" })),
    post(
      WIDGETS,
      widget("w-all", {
        spec: {
          text: "abc",
          choice: "a",
          whole: 4,
          number: 1.5,
          flag: true,
          list: ["x"],
          set: ["a", "b"],
          map: [{ name: "a", value: 1 }],
          labels: { a: "b" },
          port: "http",
          nothing: null,
          date: "2026-01-01T00:00:00Z",
          address: "192.0.2.1",
          small: 5,
          either: { x: "1" },
        },
      }),
    ),
    patch("merge", `${WIDGETS}/w-all`, { spec: { text: "A", whole: 9, list: null } }),
    patch("json", `${WIDGETS}/w-all`, [{ op: "remove", path: "/spec/text" }]),
  ]),
  scenario("unknown fields are pruned, unless they are preserved", [
    definition(
      widgetDefinition(
        object({
          spec: object({
            known: { type: "string" },
            free: object(
              { known: object({ a: { type: "string" } }) },
              { "x-kubernetes-preserve-unknown-fields": true },
            ),
            list: { type: "array", items: object({ a: { type: "string" } }) },
            map: { type: "object", additionalProperties: object({ a: { type: "string" } }) },
            template: object(
              { spec: object({ a: { type: "string" } }) },
              { "x-kubernetes-embedded-resource": true },
            ),
          }),
        }),
      ),
    ),
    post(
      WIDGETS,
      widget("a", {
        extra: 1,
        spec: {
          known: "x",
          unknown: 1,
          free: { any: { thing: 1 }, known: { a: "x", b: "y" } },
          list: [{ a: "1", b: "2" }],
          map: { k: { a: "1", b: "2" } },
          template: {
            apiVersion: "v1",
            kind: "Pod",
            metadata: { name: "t", labels: { l: "1" }, bad: 1 },
            spec: { a: "1", b: "2" },
          },
        },
        status: { x: 1 },
      }),
    ),
    post(WIDGETS, widget("b", { spec: { template: { kind: "Pod" } } })),
    post(
      WIDGETS,
      widget("c", {
        spec: {
          template: { apiVersion: "v1", kind: "Pod", metadata: { name: "A B", labels: { "-": "x" } } },
        },
      }),
    ),
  ]),
  scenario("defaults are filled in", [
    definition(
      widgetDefinition(
        object({
          spec: object(
            {
              size: { type: "integer", default: 3 },
              mode: { type: "string", default: "a" },
              nested: object({ x: { type: "string", default: "y" } }),
              made: object({ x: { type: "string", default: "y" }, z: { type: "string" } }, { default: {} }),
              list: { type: "array", items: object({ p: { type: "string", default: "TCP" } }) },
              map: {
                type: "object",
                additionalProperties: object({ p: { type: "string", default: "TCP" } }),
              },
              kept: { type: "string", nullable: true, default: "d" },
            },
            { default: {} },
          ),
        }),
      ),
    ),
    post(WIDGETS, widget("a")),
    post(
      WIDGETS,
      widget("b", { spec: { size: 0, mode: "", nested: {}, list: [{}, { p: "UDP" }], map: { k: {} } } }),
    ),
    post(WIDGETS, widget("c", { spec: { size: null, kept: null, nested: null } })),
    patch("merge", `${WIDGETS}/b`, { spec: { mode: null, list: [{}] } }),
    patch(
      "merge",
      ITEM,
      {
        spec: {
          versions: [
            {
              name: "v1",
              served: true,
              storage: true,
              schema: {
                openAPIV3Schema: object({
                  spec: object({ size: { type: "integer" }, later: { type: "string", default: "l" } }),
                }),
              },
            },
          ],
        },
      },
      { view: specOf },
    ),
    get(`${WIDGETS}/b`, { until: (body) => JSON.stringify(body).includes("later") }),
  ]),
  scenario("several versions of one kind", [
    definition(
      widgetDefinition(undefined, {
        spec: {
          versions: ["v1", "v1beta1", "v1alpha1"].map((name) => ({
            name,
            served: name !== "v1alpha1",
            storage: name === "v1beta1",
            deprecated: name === "v1beta1",
            schema: { openAPIV3Schema: ANYTHING },
          })),
        },
      }),
    ),
    served("/apis/$id.example.com/v1beta1/namespaces/$ns/widgets"),
    post(WIDGETS, widget("a", { spec: { x: 1 } })),
    get("/apis/$id.example.com/v1beta1/namespaces/$ns/widgets/a"),
    get("/apis/$id.example.com/v1beta1/namespaces/$ns/widgets"),
    get("/apis/$id.example.com/v1alpha1/namespaces/$ns/widgets"),
    post("/apis/$id.example.com/v1beta1/namespaces/$ns/widgets", widget("b", {}, "v1beta1")),
    post("/apis/$id.example.com/v1beta1/namespaces/$ns/widgets", widget("c", {}, "v1")),
    patch("merge", `${WIDGETS}/a`, { apiVersion: "$id.example.com/v1beta1" }),
    get(WIDGETS),
    get(ITEM, { view: (body) => (body as { status: { storedVersions: unknown } }).status.storedVersions }),
    patch("merge", `${ITEM}/status`, { status: { storedVersions: [] } }),
    patch("merge", `${ITEM}/status`, { status: { storedVersions: ["v1"] } }),
  ]),
  scenario("the status subresource of a custom resource", [
    definition(widgetDefinition(ANYTHING, { version: { subresources: { status: {} } } })),
    post(WIDGETS, widget("a", { spec: { x: 1 }, status: { y: 1 } }), { name: "made" }),
    put(`${WIDGETS}/a/status`, {
      ...widget("a", { spec: { x: 9 }, status: { y: 2 } }),
      metadata: { name: "a", resourceVersion: "$made.metadata.resourceVersion", labels: { l: "1" } },
    }),
    patch("merge", `${WIDGETS}/a/status`, { status: { z: 1 }, spec: { x: 9 } }),
    patch("merge", `${WIDGETS}/a`, { status: { y: 3 } }),
    patch("merge", `${WIDGETS}/a`, { spec: { x: 2 }, status: { y: 3 } }),
    get(`${WIDGETS}/a/status`),
    patch("apply", `${WIDGETS}/a/status?fieldManager=s`, widget("a", { status: { w: 1 } })),
    put(`${WIDGETS}/absent/status`, widget("absent", { status: {} })),
    post(`${WIDGETS}/a/status`, widget("a")),
    del(`${WIDGETS}/a/status`),
  ]),
  scenario("the scale subresource of a custom resource", [
    definition(
      widgetDefinition(ANYTHING, {
        version: {
          subresources: {
            status: {},
            scale: {
              specReplicasPath: ".spec.replicas",
              statusReplicasPath: ".status.replicas",
              labelSelectorPath: ".status.selector",
            },
          },
        },
      }),
    ),
    post(WIDGETS, widget("a", { spec: { replicas: 3 } })),
    get(`${WIDGETS}/a/scale`),
    given(patch("merge", `${WIDGETS}/a/status`, { status: { replicas: 2, selector: "a=b" } })),
    get(`${WIDGETS}/a/scale`, { name: "scale" }),
    put(`${WIDGETS}/a/scale`, "$scale"),
    put(`${WIDGETS}/a/scale`, {
      kind: "Scale",
      apiVersion: "autoscaling/v1",
      metadata: { name: "a", namespace: "$ns" },
      spec: { replicas: 5 },
    }),
    patch("merge", `${WIDGETS}/a/scale`, { spec: { replicas: 7 } }),
    patch("merge", `${WIDGETS}/a/scale`, { spec: { replicas: -1 } }),
    get(`${WIDGETS}/a`),
    given(post(WIDGETS, widget("none"))),
    get(`${WIDGETS}/none/scale`),
    patch("merge", `${WIDGETS}/none/scale`, { spec: { replicas: 1 } }),
    get(`${WIDGETS}/none`),
  ]),
  scenario("the instances are deleted before the definition", [
    definition(),
    given(post(WIDGETS, { ...widget("a"), metadata: { name: "a", finalizers: ["example.com/held"] } })),
    del(ITEM, undefined, { view: deletionOf }),
    get(ITEM, { view: deletionOf, until: hasCondition("Terminating") }),
    post(WIDGETS, widget("b"), {
      until: (body) => (body as { kind: string }).kind === "Status",
    }),
    get(`${WIDGETS}/a`, {
      until: (body) =>
        (body as { metadata: { deletionTimestamp?: string } }).metadata.deletionTimestamp !== undefined,
    }),
    patch("merge", `${WIDGETS}/a`, { metadata: { finalizers: null } }),
    get(ITEM, { until: (body) => (body as { kind: string }).kind === "Status" }),
  ]),
  scenario("a cluster-scoped custom resource", [
    definition(spec({ scope: "Cluster" }), "/apis/$id.example.com/v1/widgets"),
    post("/apis/$id.example.com/v1/widgets", widget("a")),
    post("/apis/$id.example.com/v1/widgets", { ...widget("b"), metadata: { name: "b", namespace: "x" } }),
    get("/apis/$id.example.com/v1/widgets/a"),
    get("/apis/$id.example.com/v1/widgets"),
    get(WIDGETS),
  ]),
  scenario("rules in CEL are checked on writes", [
    definition(
      widgetDefinition(
        object({
          spec: object(
            {
              min: { type: "integer" },
              max: { type: "integer" },
              fixed: {
                type: "string",
                "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "is immutable" }],
              },
            },
            {
              "x-kubernetes-validations": [
                { rule: "self.min <= self.max", message: "min must not exceed max" },
              ],
            },
          ),
        }),
      ),
    ),
    post(WIDGETS, widget("a", { spec: { min: 2, max: 1 } })),
    post(WIDGETS, widget("b", { spec: { min: 1, max: 2, fixed: "x" } })),
    patch("merge", `${WIDGETS}/b`, { spec: { fixed: "y", min: 3 } }),
    patch("merge", `${WIDGETS}/b`, { spec: { max: 3 } }),
    post(WIDGETS, widget("c", { spec: {} })),
  ]),
]);

/** Without the status, which follows in its own time. */
function specOf(body: unknown): unknown {
  const {
    status: _,
    metadata,
    ...rest
  } = body as { status?: unknown; metadata: { managedFields?: unknown } };
  const { managedFields: __, ...named } = metadata;
  return { ...rest, metadata: named };
}

function deletionOf(body: unknown): unknown {
  const { metadata } = body as { metadata: { deletionTimestamp?: string; finalizers?: unknown } };
  return { deletionTimestamp: metadata.deletionTimestamp, finalizers: metadata.finalizers };
}

/** Each kind of condition is set by a controller of its own, whichever comes first. */
function conditionsOf(body: unknown): unknown {
  const { status } = body as { status: { conditions: readonly { type: string }[] } };
  return Object.fromEntries(status.conditions.map((it) => [it.type, it]));
}
