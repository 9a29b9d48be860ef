import { definition, WIDGETS } from "../definitions.ts";
import { kindOf, manifest, pathOf } from "../manifests.ts";
import { area, get, given, patch, post, put, scenario, watch } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const map = (metadata: object, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata,
  ...more,
});
const widget = (metadata: object, more: object = {}): object => ({
  apiVersion: "$id.example.com/v1",
  kind: "Widget",
  metadata,
  ...more,
});

/** Kinds of each way to treat an update without a resourceVersion and a PUT of what is not there. */
const KINDS = [
  "ConfigMap",
  "Secret",
  "Service",
  "Endpoints",
  "EndpointSlice",
  "ServiceAccount",
  "Lease",
  "Role",
  "Event",
];

export const scenarios = area("updates", [
  scenario("an update with an old resourceVersion is a conflict", [
    post(MAPS, map({ name: "a" }), { name: "first" }),
    put(
      `${MAPS}/a`,
      map({ name: "a", resourceVersion: "$first.metadata.resourceVersion" }, { data: { x: "1" } }),
    ),
    put(
      `${MAPS}/a`,
      map({ name: "a", resourceVersion: "$first.metadata.resourceVersion" }, { data: { x: "2" } }),
    ),
    patch("merge", `${MAPS}/a`, {
      metadata: { resourceVersion: "$first.metadata.resourceVersion" },
      data: { x: "2" },
    }),
    patch("json", `${MAPS}/a`, [
      { op: "replace", path: "/metadata/resourceVersion", value: "$first.metadata.resourceVersion" },
    ]),
    put(`${MAPS}/a`, map({ name: "a" }, { data: { x: "3" } })),
    put(`${MAPS}/a`, map({ name: "a", resourceVersion: "0" }, { data: { x: "4" } })),
    put(`${MAPS}/a`, map({ name: "a", resourceVersion: "x" }, { data: { x: "5" } })),
    put(`${MAPS}/a`, map({ name: "a", resourceVersion: "999999999" }, { data: { x: "5" } })),
  ]),
  scenario("an update of another uid is a conflict", [
    given(post(MAPS, map({ name: "a" }))),
    put(`${MAPS}/a`, map({ name: "a", uid: "22222222-2222-4222-8222-222222222222" })),
    patch("merge", `${MAPS}/a`, { metadata: { uid: "22222222-2222-4222-8222-222222222222" } }),
    put(`${MAPS}/absent`, map({ name: "absent", uid: "22222222-2222-4222-8222-222222222222" })),
    put(`${MAPS}/absent`, map({ name: "absent", resourceVersion: "5" })),
    put(`${MAPS}/absent`, map({ name: "absent" })),
  ]),
  ...KINDS.map((name) => {
    const kind = kindOf(name);
    const path = pathOf(kind);
    return scenario(`a ${name} is replaced without a resourceVersion, and put where none is`, [
      given(post(path, manifest(kind, { name: "a" }))),
      put(`${path}/a`, manifest(kind, { name: "a", labels: { l: "1" } })),
      put(`${path}/b`, manifest(kind, { name: "b" })),
      put(`${path}/c`, manifest(kind, { name: "c", resourceVersion: "5" })),
    ]);
  }),
  scenario("a custom resource is never replaced without its resourceVersion", [
    definition(),
    post(WIDGETS, widget({ name: "a" }), { name: "first" }),
    put(`${WIDGETS}/a`, widget({ name: "a" }, { spec: { x: 1 } })),
    put(
      `${WIDGETS}/a`,
      widget({ name: "a", resourceVersion: "$first.metadata.resourceVersion" }, { spec: { x: 1 } }),
    ),
    put(
      `${WIDGETS}/a`,
      widget({ name: "a", resourceVersion: "$first.metadata.resourceVersion" }, { spec: { x: 2 } }),
    ),
    put(`${WIDGETS}/b`, widget({ name: "b" })),
    put(`${WIDGETS}/b`, widget({ name: "b", resourceVersion: "5" })),
  ]),
  scenario("a CustomResourceDefinition is never replaced without its resourceVersion", [
    definition(),
    put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.$id.example.com", {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: "widgets.$id.example.com" },
      spec: {
        group: "$id.example.com",
        scope: "Namespaced",
        names: { plural: "widgets", kind: "Widget" },
        versions: [
          { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
        ],
      },
    }),
  ]),
  scenario("writes that change nothing leave the revision as it is", [
    post(MAPS, map({ name: "a", labels: { l: "1" } }, { data: { x: "1" } }), { name: "made" }),
    watch(`${MAPS}?watch=true&resourceVersion=$made.metadata.resourceVersion`, {
      events: 1,
      during: [
        put(`${MAPS}/a`, "$made"),
        put(`${MAPS}/a`, map({ name: "a", labels: { l: "1" } }, { data: { x: "1" } })),
        patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
        patch("merge", `${MAPS}/a`, {}),
        patch("json", `${MAPS}/a`, []),
        patch("strategic", `${MAPS}/a`, { metadata: { labels: { l: "1" } } }),
        patch("merge", `${MAPS}/a`, { data: { x: "2" } }),
      ],
    }),
  ]),
  scenario("a write of a custom resource that changes nothing leaves the revision as it is", [
    definition(),
    post(WIDGETS, widget({ name: "a" }, { spec: { x: 1 } }), { name: "made" }),
    put(`${WIDGETS}/a`, "$made"),
    patch("merge", `${WIDGETS}/a`, { spec: { x: 1 } }),
    patch("merge", `${WIDGETS}/a`, { spec: { x: 1.0 } }),
  ]),
  scenario("an immutable ConfigMap", [
    post(MAPS, map({ name: "a" }, { immutable: true, data: { x: "1" } })),
    patch("merge", `${MAPS}/a`, { data: { x: "2" } }),
    patch("merge", `${MAPS}/a`, { immutable: false }),
    patch("merge", `${MAPS}/a`, { metadata: { labels: { l: "1" } } }),
  ]),
  scenario("an object that exists is not created again", [
    given(post(MAPS, map({ name: "a" }))),
    post(MAPS, map({ name: "a" }, { data: { x: "1" } })),
    post("/apis/apps/v1/namespaces/$ns/deployments", manifest(kindOf("Deployment"), { name: "a" })),
    post("/apis/apps/v1/namespaces/$ns/deployments", manifest(kindOf("Deployment"), { name: "a" })),
    post("/api/v1/namespaces", { metadata: { name: "$ns" } }),
    get(`${MAPS}/a`),
  ]),
]);
