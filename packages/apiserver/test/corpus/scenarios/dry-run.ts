import { definition, WIDGETS } from "../definitions.ts";
import { area, del, get, given, patch, post, put, scenario } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const SERVICES = "/api/v1/namespaces/$ns/services";
const map = (metadata: object, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata,
  ...more,
});
const service = (name: string, spec: object = {}): object => ({
  metadata: { name },
  spec: { ports: [{ port: 80 }], ...spec },
});

export const scenarios = area("dry-run", [
  scenario("nothing is stored", [
    post(`${MAPS}?dryRun=All`, map({ name: "a" }, { data: { x: "1" } })),
    get(`${MAPS}/a`),
    post(MAPS, map({ name: "a" }, { data: { x: "1" } }), { name: "made" }),
    post(`${MAPS}?dryRun=All`, map({ name: "a" })),
    put(`${MAPS}/a?dryRun=All`, map({ name: "a" }, { data: { x: "2" } })),
    patch("merge", `${MAPS}/a?dryRun=All`, { data: { x: "3" } }),
    patch(
      "apply",
      `${MAPS}/a?dryRun=All&fieldManager=m&force=true`,
      map({ name: "a" }, { data: { x: "4" } }),
    ),
    patch("apply", `${MAPS}/b?dryRun=All&fieldManager=m`, map({ name: "b" }, { data: { x: "4" } })),
    del(`${MAPS}/a?dryRun=All`),
    get(MAPS),
  ]),
  scenario("invalid requests are rejected", [
    post(`${MAPS}?dryRun=All`, map({ name: "A" })),
    post(`/api/v1/namespaces/absent-$id/configmaps?dryRun=All`, map({ name: "a" })),
    given(post(MAPS, map({ name: "a" }))),
    put(`${MAPS}/a?dryRun=All`, map({ name: "a", resourceVersion: "1" })),
    put(`${MAPS}/absent?dryRun=All`, map({ name: "absent" })),
    del(`${MAPS}/absent?dryRun=All`),
    del(`${MAPS}/a`, { dryRun: ["All"], preconditions: { resourceVersion: "1" } }),
  ]),
  scenario("names are generated", [post(`${MAPS}?dryRun=All`, map({ generateName: "a-" }))]),
  scenario("no address and no port is allocated", [
    post(`${SERVICES}?dryRun=All`, service("a", { type: "NodePort" })),
    post(
      `${SERVICES}?dryRun=All`,
      service("a", { clusterIP: "10.0.0.77", type: "NodePort", ports: [{ port: 1, nodePort: 30077 }] }),
    ),
    post(
      SERVICES,
      service("b", { clusterIP: "10.0.0.77", type: "NodePort", ports: [{ port: 1, nodePort: 30077 }] }),
    ),
    post(`${SERVICES}?dryRun=All`, service("c", { clusterIP: "10.0.0.77" })),
    patch("merge", `${SERVICES}/b?dryRun=All`, {
      spec: { type: "ExternalName", externalName: "x.example.com", clusterIP: null, clusterIPs: null },
    }),
    get(`${SERVICES}/b`),
  ]),
  scenario("finalizers, namespaces and custom resources", [
    given(post(MAPS, map({ name: "a", finalizers: ["example.com/held"] }))),
    del(`${MAPS}/a?dryRun=All`),
    del(`/api/v1/namespaces/$ns?dryRun=All`),
    get("/api/v1/namespaces/$ns"),
    definition(),
    post(`${WIDGETS}?dryRun=All`, {
      apiVersion: "$id.example.com/v1",
      kind: "Widget",
      metadata: { name: "a" },
    }),
    get(WIDGETS),
    del("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.$id.example.com?dryRun=All"),
    post("/api/v1/namespaces?dryRun=All", { metadata: { name: "$id" } }),
    get("/api/v1/namespaces/$id"),
  ]),
  scenario("reviews and tokens", [
    post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?dryRun=All", {
      spec: { resourceAttributes: { verb: "get", resource: "pods" } },
    }),
    given(post("/api/v1/namespaces/$ns/serviceaccounts", { metadata: { name: "s" } })),
    post("/api/v1/namespaces/$ns/serviceaccounts/s/token?dryRun=All", { spec: {} }),
  ]),
]);
