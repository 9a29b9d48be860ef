import { area, del, get, given, patch, post, put, scenario } from "../scenario.ts";

const ITEM = "/api/v1/namespaces/$id";
const namespace = (metadata: object, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata,
  ...more,
});
const make = (metadata: object = {}, more: object = {}): object =>
  namespace({ name: "$id", ...metadata }, more);
const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "m" } };
const of = { namespaced: false };

export const scenarios = area("namespaces", [
  scenario(
    "a namespace is created with its label and its finalizer",
    [
      post("/api/v1/namespaces", make({ labels: { "kubernetes.io/metadata.name": "other", l: "1" } })),
      get(ITEM),
      get(`${ITEM}/status`),
      patch("merge", ITEM, { metadata: { labels: { "kubernetes.io/metadata.name": "other" } } }),
      patch("merge", ITEM, { metadata: { labels: { "kubernetes.io/metadata.name": null } } }),
      patch("merge", ITEM, { spec: { finalizers: [] } }),
      patch("merge", ITEM, { spec: { finalizers: ["example.com/x"] } }),
      patch("merge", ITEM, { status: { phase: "Terminating" } }),
      patch("merge", `${ITEM}/status`, { status: { phase: "Active" }, metadata: { labels: { s: "1" } } }),
      patch("merge", `${ITEM}/status`, { status: { phase: "Terminating" } }),
      patch("merge", `${ITEM}/status`, { status: { conditions: [{ type: "X", status: "True" }] } }),
    ],
    of,
  ),
  scenario(
    "finalizers of a spec are the client's to choose",
    [post("/api/v1/namespaces", make({}, { spec: { finalizers: ["example.com/x"] } })), get(ITEM)],
    of,
  ),
  scenario(
    "a terminating namespace accepts no new objects",
    [
      given(
        post(
          "/api/v1/namespaces",
          make(
            { finalizers: ["example.com/held"] },
            { spec: { finalizers: ["example.com/x", "kubernetes"] } },
          ),
        ),
      ),
      del(ITEM, undefined, { view: withoutConditions }),
      post(`${ITEM}/configmaps`, map),
      post(`${ITEM}/configmaps?dryRun=All`, map),
      patch("apply", `${ITEM}/configmaps/m?fieldManager=x`, map),
      put("/apis/coordination.k8s.io/v1/namespaces/$id/leases/l", {
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata: { name: "l" },
      }),
      get(`${ITEM}/configmaps/m`),
      post("/api/v1/namespaces", make()),
    ],
    of,
  ),
  scenario(
    "a namespace is finalized",
    [
      post("/api/v1/namespaces", make({}, { spec: { finalizers: ["example.com/x"] } })),
      put(`${ITEM}/finalize`, make({}, { spec: { finalizers: ["example.com/y"] } })),
      get(ITEM),
      put(`${ITEM}/finalize`, make({}, { spec: { finalizers: ["nodomain"] } })),
      put(`${ITEM}/finalize`, namespace({ name: "other" }, { spec: { finalizers: [] } })),
      del(ITEM, undefined, { view: withoutConditions }),
      put(`${ITEM}/finalize`, make({}, { spec: { finalizers: [] } }), { view: withoutConditions }),
      get(ITEM),
      put(`${ITEM}/finalize`, make({}, { spec: { finalizers: [] } })),
    ],
    of,
  ),
  scenario(
    "protected namespaces cannot be deleted",
    [
      del("/api/v1/namespaces/default?dryRun=All"),
      del("/api/v1/namespaces/kube-system?dryRun=All"),
      del("/api/v1/namespaces/kube-public?dryRun=All"),
      del("/api/v1/namespaces/absent-$id"),
    ],
    of,
  ),
  scenario(
    "preconditions of the deletion of a namespace",
    [
      given(post("/api/v1/namespaces", make())),
      del(ITEM, { preconditions: { uid: "22222222-2222-4222-8222-222222222222" } }),
      del(ITEM, { preconditions: { resourceVersion: "1" } }),
    ],
    of,
  ),
  scenario("a namespace is created by server-side apply, and by none other", [
    patch("apply", ITEM + "?fieldManager=m", make({ labels: { l: "1" } })),
    put("/api/v1/namespaces/$id-b", namespace({ name: "$id-b" })),
    post("/api/v1/namespaces", namespace({ generateName: "n-" })),
    post("/api/v1/namespaces", namespace({ name: "$id-c", namespace: "x" })),
  ]),
  scenario("namespaces and the Service of every cluster", [
    ...["default", "kube-system", "kube-public", "kube-node-lease"].map((it) =>
      get(`/api/v1/namespaces/${it}`),
    ),
    get("/api/v1/namespaces/default/services/kubernetes", { view: withoutAddresses }),
  ]),
]);

/** Without the progress of the deletion of the content, which a server of its own makes. */
function withoutConditions(body: unknown): unknown {
  const { status, ...rest } = body as { status?: { phase?: string } };
  return { ...rest, status: { phase: status?.phase } };
}

function withoutAddresses(body: unknown): unknown {
  const { spec, ...rest } = body as { spec: { ports: { targetPort?: unknown }[] } };
  return { ...rest, spec: { ...spec, ports: spec.ports.map((it) => ({ ...it, targetPort: "<port>" })) } };
}
