import { definition, WIDGETS } from "../definitions.ts";
import { kindOf, manifest, pathOf } from "../manifests.ts";
import { area, get, given, patch, post, put, scenario } from "../scenario.ts";

const MAP = "/api/v1/namespaces/$ns/configmaps/a";
const LEASE = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases/a";
const DEPLOYMENT = pathOf(kindOf("Deployment"));
const LATER = { later: true };

const map = (data: Readonly<Record<string, string>>): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "a" },
  data,
});
const widget = (spec: object): object => ({
  apiVersion: "$id.example.com/v1",
  kind: "Widget",
  metadata: { name: "a" },
  spec,
});

/** When the entries of managedFields are renewed. */
export const scenarios = area("apply", [
  scenario("a write that changes values renews the time of its manager, one that does not leaves it", [
    given(post("/api/v1/namespaces/$ns/configmaps?fieldManager=one", map({ x: "1", y: "1" }))),
    put(`${MAP}?fieldManager=one`, map({ x: "2", y: "1" }), LATER),
    put(`${MAP}?fieldManager=one`, map({ x: "2", y: "1" }), LATER),
    patch("merge", `${MAP}?fieldManager=two`, { data: { x: "2" } }),
    patch("merge", `${MAP}?fieldManager=two`, { data: { x: "3" } }),
    patch("merge", `${MAP}?fieldManager=two`, { data: { x: null } }),
    patch("apply", `${MAP}?fieldManager=three&force=true`, map({ y: "4" })),
    patch("apply", `${MAP}?fieldManager=three`, map({ y: "4" }), LATER),
    patch("apply", `${MAP}?fieldManager=three`, map({ y: "5" })),
    patch("apply", `${MAP}?fieldManager=four`, map({ y: "5" })),
    get(MAP),
  ]),
  scenario("parts of objects renew times, too", [
    given(post(`${DEPLOYMENT}?fieldManager=one`, manifest(kindOf("Deployment"), { name: "a" }))),
    patch("strategic", `${DEPLOYMENT}/a?fieldManager=one`, { spec: { replicas: 3 } }, LATER),
    patch("merge", `${DEPLOYMENT}/a/status?fieldManager=two`, { status: { replicas: 1 } }),
    patch("merge", `${DEPLOYMENT}/a/status?fieldManager=two`, { status: { replicas: 2 } }, LATER),
    given(
      post(LEASE.slice(0, -2), {
        metadata: { name: "a" },
        spec: { holderIdentity: "h", leaseTransitions: 1 },
      }),
    ),
    patch("merge", LEASE, { spec: { leaseTransitions: 2 } }, LATER),
  ]),
  scenario("writes of custom resources renew times, too", [
    definition(),
    given(post(`${WIDGETS}?fieldManager=one`, widget({ x: 1 }))),
    patch("merge", `${WIDGETS}/a?fieldManager=one`, { spec: { x: 2 } }, LATER),
    patch("merge", `${WIDGETS}/a?fieldManager=one`, { spec: { x: 2 } }, LATER),
    patch("json", `${WIDGETS}/a?fieldManager=one`, [{ op: "replace", path: "/spec/x", value: 3 }]),
  ]),
]);
