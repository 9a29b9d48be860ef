import { definition, WIDGETS } from "../definitions.ts";
import { area, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const map = (metadata: object, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata,
  ...more,
});
const make = (metadata: object, more: object = {}): Step => post(MAPS, map(metadata, more));

const OWNER = { apiVersion: "v1", kind: "Pod", name: "p", uid: "11111111-1111-4111-8111-111111111111" };

export const scenarios = area("metadata", [
  scenario("fields that only the server sets are ignored in requests", [
    make({
      name: "a",
      uid: "22222222-2222-4222-8222-222222222222",
      creationTimestamp: "2001-01-01T00:00:00Z",
      deletionTimestamp: "2001-01-01T00:00:00Z",
      deletionGracePeriodSeconds: 5,
      generation: 7,
      selfLink: "/x",
    }),
    make({ name: "b", resourceVersion: "5" }),
    make({ name: "c", resourceVersion: "0" }),
    make({ name: "d", resourceVersion: "abc" }),
  ]),
  scenario("a name is generated from generateName", [
    make({ generateName: "a-" }),
    make({ generateName: "a-", name: "named" }),
    make({ generateName: "a-very-long-name-that-leaves-no-room-for-what-is-generated-at-its-end" }),

    make({}),
    post("/api/v1/namespaces/$ns/services", {
      metadata: { generateName: "s-" },
      spec: { ports: [{ port: 1 }] },
    }),
  ]),
  scenario("names are checked by the rules of their kind", [
    make({ name: "A" }),
    make({ name: "a.b" }),
    make({ name: "a..b" }),
    make({ name: "-a" }),
    make({ name: "a_b" }),
    make({ name: "a/b" }),
    make({ name: `a${"x".repeat(253)}` }),
    post("/api/v1/namespaces/$ns/services", { metadata: { name: "a.b" }, spec: { ports: [{ port: 1 }] } }),
    post("/api/v1/namespaces/$ns/services", { metadata: { name: "1a" }, spec: { ports: [{ port: 1 }] } }),
    post("/api/v1/namespaces", { metadata: { name: "a.b" } }),
    post("/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles", {
      metadata: { name: "A:b c" },
      rules: [],
    }),
    post("/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles", { metadata: { name: "a/b" }, rules: [] }),
    post("/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles", { metadata: { name: ".." }, rules: [] }),
    post("/apis/coordination.k8s.io/v1/namespaces/$ns/leases", { metadata: { name: "A" } }),
  ]),
  scenario("names of custom resources are checked", [
    definition(),
    ...["A", "a.b", "", "a%"].map((name) =>
      post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name } }),
    ),
    post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { generateName: "w-" } }),
    post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget" }),
  ]),
  scenario("name and namespace must be equal in path and body", [
    make({ name: "a", namespace: "other" }),
    make({ name: "a", namespace: "$ns" }),
    put(`${MAPS}/a`, map({ name: "b" })),
    put(`${MAPS}/a`, map({})),
    put(`${MAPS}/a`, map({ name: "a", namespace: "other" })),
    patch("merge", `${MAPS}/a`, { metadata: { name: "b" } }),
    patch("merge", `${MAPS}/a`, { metadata: { namespace: "other" } }),
    patch("merge", `${MAPS}/a`, { metadata: { name: null } }),
    patch("merge", `${MAPS}/a`, { kind: "Secret" }),
    patch("merge", `${MAPS}/a`, { apiVersion: "v2" }),
    post("/api/v1/nodes", { metadata: { name: "$id", namespace: "other" } }),
  ]),
  scenario("labels and annotations are checked", [
    make({ name: "a", labels: { "": "x" } }),
    make({ name: "a", labels: { "-a": "x", "a/b/c": "y", "example.com/a": "a b" } }),
    make({ name: "a", labels: { "UPPER.example.com/a": "x" } }),
    make({ name: "a", labels: { a: "x".repeat(64) } }),
    make({ name: "a", labels: { ["a".repeat(64)]: "x" } }),
    make({ name: "a", labels: { a: 1 } }),
    make({ name: "a", labels: { a: null } }),
    make({ name: "b", annotations: { "-a": "x" } }),
    make({ name: "b", annotations: { "Example.com/a": "any thing ✓" } }),
    make({ name: "c", annotations: { a: "x".repeat(262_144) } }),
    make({ name: "d", labels: {}, annotations: {} }),
  ]),
  scenario("owner references are checked", [
    make({ name: "a", ownerReferences: [{}] }),
    make({ name: "a", ownerReferences: [{ ...OWNER, apiVersion: "v1/x/y" }] }),
    make({ name: "a", ownerReferences: [{ ...OWNER, kind: "Event" }] }),
    make({
      name: "a",
      ownerReferences: [
        { ...OWNER, controller: true },
        { ...OWNER, name: "q", controller: true },
      ],
    }),
    make({ name: "a", ownerReferences: [OWNER, OWNER] }),
    make({ name: "b", ownerReferences: [{ ...OWNER, blockOwnerDeletion: true, controller: true }] }),
  ]),
  scenario("finalizers are checked", [
    make({ name: "a", finalizers: ["nodomain"] }),
    make({ name: "a", finalizers: ["example.com/a b"] }),
    make({ name: "a", finalizers: ["orphan", "foregroundDeletion"] }),
    make({ name: "b", finalizers: ["example.com/x", "example.com/x"] }),
    make({ name: "c", finalizers: ["kubernetes", "orphan"] }),
    make({ name: "d", finalizers: [""] }),
  ]),
  scenario("managedFields are checked and can be reset", [
    make({ name: "a", managedFields: [{ manager: "m" }] }, { data: { x: "1" } }),
    make({ name: "b", managedFields: [{ manager: "m", operation: "Guess", apiVersion: "v1" }] }),
    make({ name: "c" }, { data: { x: "1" } }),
    patch("merge", `${MAPS}/c`, { metadata: { managedFields: [{}] } }),
    patch("merge", `${MAPS}/c`, { data: { y: "1" } }),
    patch("merge", `${MAPS}/c`, { metadata: { managedFields: null } }),
  ]),
  scenario("metadata that is immutable", [
    make({ name: "a" }, { data: { x: "1" } }),
    ...[
      { uid: "22222222-2222-4222-8222-222222222222" },
      { creationTimestamp: "2001-01-01T00:00:00Z" },
      { creationTimestamp: null },
      { generation: 9 },
      { deletionTimestamp: "2001-01-01T00:00:00Z" },
      { deletionGracePeriodSeconds: 4 },
      { selfLink: "/x" },
      { generateName: "g-" },
      { uid: null },
      { resourceVersion: "1" },
      { resourceVersion: null },
      { resourceVersion: "x" },
    ].map((metadata) => patch("merge", `${MAPS}/a`, { metadata })),
    get(`${MAPS}/a`),
  ]),
  scenario("generation counts changes of the spec", [
    post("/apis/apps/v1/namespaces/$ns/deployments", {
      metadata: { name: "a" },
      spec: {
        selector: { matchLabels: { a: "b" } },
        template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } },
      },
    }),
    ...[{ metadata: { labels: { x: "y" } } }, { spec: { replicas: 2 } }, { status: { replicas: 5 } }].map(
      (body) => patch("merge", "/apis/apps/v1/namespaces/$ns/deployments/a", body),
    ),
    patch("merge", "/apis/apps/v1/namespaces/$ns/deployments/a/status", {
      status: { observedGeneration: 2 },
    }),
    patch("merge", "/apis/apps/v1/namespaces/$ns/deployments/a/status", { spec: { replicas: 4 } }),
  ]),
  scenario("generation of custom resources with and without a status subresource", [
    definition(),
    post(WIDGETS, {
      apiVersion: "$id.example.com/v1",
      kind: "Widget",
      metadata: { name: "a" },
      spec: { x: 1 },
    }),
    patch("merge", `${WIDGETS}/a`, { metadata: { labels: { x: "y" } } }),
    patch("merge", `${WIDGETS}/a`, { status: { x: 1 } }),
    patch("merge", `${WIDGETS}/a`, { spec: { x: 2 } }),
    given(get(`${WIDGETS}/a`)),
  ]),
]);
