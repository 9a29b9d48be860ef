import { definition, WIDGETS } from "../definitions.ts";
import { kindOf, manifest } from "../manifests.ts";
import { area, del, get, given, patch, post, put, scenario, watch } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const PODS = "/api/v1/namespaces/$ns/pods";
const map = (name: string, metadata: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
});
const held = (name: string): object => map(name, { finalizers: ["example.com/held"] });
const OTHER = "22222222-2222-4222-8222-222222222222";

export const scenarios = area("deletion", [
  scenario("preconditions have to hold", [
    post(MAPS, map("a"), { name: "made" }),
    del(`${MAPS}/a`, { preconditions: { uid: OTHER } }),
    del(`${MAPS}/a`, { preconditions: { resourceVersion: "1" } }),
    del(`${MAPS}/a`, { preconditions: { uid: "$made.metadata.uid", resourceVersion: "1" } }),
    patch("merge", `${MAPS}/a`, { data: { x: "1" } }, { name: "changed" }),
    del(`${MAPS}/a`, { preconditions: { resourceVersion: "$made.metadata.resourceVersion" } }),
    del(`${MAPS}/a`, {
      preconditions: { uid: "$made.metadata.uid", resourceVersion: "$changed.metadata.resourceVersion" },
    }),
    del(`${MAPS}/a`, { preconditions: { uid: OTHER } }),
  ]),
  scenario("an object with finalizers stays until the last is removed", [
    given(post(MAPS, held("a"))),
    del(`${MAPS}/a`),
    del(`${MAPS}/a`),
    get(`${MAPS}/a`),
    patch("merge", `${MAPS}/a`, { metadata: { finalizers: ["example.com/held", "example.com/new"] } }),
    patch("merge", `${MAPS}/a`, { metadata: { finalizers: ["example.com/other"] } }),
    patch("merge", `${MAPS}/a`, { metadata: { deletionTimestamp: null } }),
    patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
    post(MAPS, map("a")),
    patch("merge", `${MAPS}/a`, { metadata: { finalizers: null } }),
    get(`${MAPS}/a`),
  ]),
  scenario("a PUT and a JSON patch can take the last finalizer away", [
    given(post(MAPS, held("a")), post(MAPS, held("b"))),
    del(`${MAPS}/a`, undefined, { name: "dying" }),
    put(`${MAPS}/a`, map("a")),
    get(`${MAPS}/a`),
    del(`${MAPS}/b`),
    patch("json", `${MAPS}/b`, [{ op: "remove", path: "/metadata/finalizers/0" }]),
    get(`${MAPS}/b`),
  ]),
  scenario("the generation increases when a deletion begins", [
    post("/apis/apps/v1/namespaces/$ns/deployments", {
      ...manifest(kindOf("Deployment"), { name: "a", finalizers: ["example.com/held"] }),
    }),
    del("/apis/apps/v1/namespaces/$ns/deployments/a"),
    patch("merge", "/apis/apps/v1/namespaces/$ns/deployments/a", { spec: { replicas: 3 } }),
    patch("merge", "/apis/apps/v1/namespaces/$ns/deployments/a", { metadata: { finalizers: [] } }),
  ]),
  scenario("propagation policies leave their finalizers", [
    given(...["a", "b", "c", "d", "e"].map((it) => post(MAPS, map(it)))),
    del(`${MAPS}/a`, { propagationPolicy: "Foreground" }),
    del(`${MAPS}/b`, { propagationPolicy: "Orphan" }),
    del(`${MAPS}/c`, { propagationPolicy: "Background" }),
    del(`${MAPS}/d`, { orphanDependents: true }),
    del(`${MAPS}/e`, { orphanDependents: false }),
    get(`${MAPS}?limit=500`),
  ]),
  scenario("an object with finalizers is deleted in the foreground", [
    given(post(MAPS, held("a"))),
    del(`${MAPS}/a?propagationPolicy=Foreground`),
    del(`${MAPS}/a`, { propagationPolicy: "Background" }),
    del(`${MAPS}/a`, { propagationPolicy: "Orphan" }),
  ]),
  scenario("an object with finalizers answers 202 to orphanDependents: false", [
    given(post(MAPS, held("a"))),
    del(`${MAPS}/a`, { orphanDependents: false }),
  ]),
  scenario("delete options are checked", [
    given(post(MAPS, map("a"))),
    del(`${MAPS}/a`, { propagationPolicy: "Sometimes" }),
    del(`${MAPS}/a`, { propagationPolicy: "Orphan", orphanDependents: true }),
    del(`${MAPS}/a`, { gracePeriodSeconds: -1 }),
    del(`${MAPS}/a`, { dryRun: ["Some"] }),
    del(`${MAPS}/a?dryRun=Some`),
    del(`${MAPS}/a`, { kind: "Pod", apiVersion: "v1" }),
    del(`${MAPS}/a`, { kind: "DeleteOptions", apiVersion: "v2" }),
    del(`${MAPS}/a`, "{"),
    del(`${MAPS}/a`, "kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n", { type: "application/yaml" }),
    del(`${MAPS}/a`, "x", { type: "text/plain" }),
    del(`${MAPS}/a`, { kind: "DeleteOptions", apiVersion: "v1", gracePeriodSeconds: "x" }),
    del(`${MAPS}/a?gracePeriodSeconds=x`),
    del(`${MAPS}/a?orphanDependents=x`),
    del(`${MAPS}/a`, { kind: "DeleteOptions", apiVersion: "meta.k8s.io/v1", unknown: 1 }),
  ]),
  scenario("query parameters are delete options too", [
    post(MAPS, map("a"), { name: "made" }),
    del(`${MAPS}/a?dryRun=All`),
    del(`${MAPS}/a?propagationPolicy=Foreground&gracePeriodSeconds=0`),
    get(`${MAPS}/a`),
  ]),
  scenario("a pod that is bound waits for its node", [
    post(PODS, {
      metadata: { name: "bound" },
      spec: { nodeName: "n", containers: [{ name: "c", image: "i" }] },
    }),
    del(`${PODS}/bound`),
    del(`${PODS}/bound`, { gracePeriodSeconds: 10 }),
    del(`${PODS}/bound`, { gracePeriodSeconds: 60 }),
    get(`${PODS}/bound`),
    del(`${PODS}/bound`, { gracePeriodSeconds: 0 }),
    get(`${PODS}/bound`),
  ]),
  scenario("a pod that is not bound is deleted at once", [
    given(post(PODS, { metadata: { name: "a" }, spec: { containers: [{ name: "c", image: "i" }] } })),
    del(`${PODS}/a`),
    get(`${PODS}/a`),
  ]),
  scenario("a finished pod is deleted at once", [
    given(
      post(PODS, {
        metadata: { name: "a" },
        spec: { nodeName: "n", containers: [{ name: "c", image: "i" }] },
      }),
      patch("merge", `${PODS}/a/status`, { status: { phase: "Succeeded" } }),
    ),
    del(`${PODS}/a`),
    get(`${PODS}/a`),
  ]),
  scenario("a watch reports a terminating pod before its deletion", [
    post(
      PODS,
      { metadata: { name: "a" }, spec: { containers: [{ name: "c", image: "i" }] } },
      { name: "made" },
    ),
    watch(`${PODS}?watch=true&resourceVersion=$made.metadata.resourceVersion`, {
      events: 2,
      during: [del(`${PODS}/a`)],
    }),
  ]),
  scenario("preconditions hold for every object of a collection", [
    given(post(MAPS, map("a")), post(MAPS, map("b"))),
    del(
      MAPS,
      { preconditions: { resourceVersion: "1" } },
      { view: (body) => (body as { code?: number }).code },
    ),
    get(MAPS),
  ]),
  scenario("a Job orphans its pods unless the request sets a propagation policy", [
    given(
      ...["a", "b", "c", "d"].map((name) =>
        post("/apis/batch/v1/namespaces/$ns/jobs", manifest(kindOf("Job"), { name, labels: { l: "1" } })),
      ),
    ),
    del("/apis/batch/v1/namespaces/$ns/jobs/a", { propagationPolicy: "Background" }),
    del("/apis/batch/v1/namespaces/$ns/jobs/b", { orphanDependents: false }),
    del("/apis/batch/v1/namespaces/$ns/jobs/c?dryRun=All"),
    del("/apis/batch/v1/namespaces/$ns/jobs/d", { propagationPolicy: "Orphan" }),
  ]),
  scenario("a collection is deleted by selector", [
    given(...["a", "b", "c"].map((it) => post(MAPS, map(it, { labels: { l: it === "c" ? "2" : "1" } })))),
    del(`${MAPS}?labelSelector=l%3D1`),
    get(MAPS),
    del(`${MAPS}?fieldSelector=metadata.name%3Dc`),
    get(MAPS),
    del(MAPS),
  ]),
  scenario("a collection with objects that have finalizers", [
    given(post(MAPS, held("a")), post(MAPS, map("b"))),
    del(MAPS, { propagationPolicy: "Background" }),
    get(MAPS),
  ]),
  scenario("a collection is deleted as a dry run", [
    given(post(MAPS, map("a"))),
    del(`${MAPS}?dryRun=All`),
    get(MAPS),
  ]),
  scenario("a collection of custom resources is deleted", [
    definition(),
    given(
      ...["a", "b"].map((name) =>
        post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name } }),
      ),
    ),
    del(`${WIDGETS}?labelSelector=x`),
    del(WIDGETS),
    get(WIDGETS),
  ]),
  scenario("services are deleted and answered as objects", [
    given(post("/api/v1/namespaces/$ns/services", manifest(kindOf("Service"), { name: "a" }))),
    del("/api/v1/namespaces/$ns/services/a"),
    del("/api/v1/namespaces/$ns/services/a"),
  ]),
  scenario("a watch reports a deletion that takes time", [
    post(MAPS, held("a"), { name: "made" }),
    watch(`${MAPS}?watch=true&resourceVersion=$made.metadata.resourceVersion`, {
      events: 2,
      during: [
        del(`${MAPS}/a`),
        patch("merge", `${MAPS}/a`, { metadata: { finalizers: null, labels: { l: "1" } } }),
      ],
    }),
  ]),
]);
