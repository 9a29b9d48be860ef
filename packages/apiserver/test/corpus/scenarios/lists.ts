import { definition, widgetDefinition, WIDGETS } from "../definitions.ts";
import { area, del, get, given, patch, post, scenario } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const SELECT = "labelSelector=scenario%3D$id";
const map = (name: string, labels: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, labels: { scenario: "$id", ...labels } },
});
const five = given(
  ...["a", "b", "c", "d", "e"].map((it, index) => post(MAPS, map(it, { n: String(index), [it]: "" }))),
);

/** Revisions that a client may request in a list, in addition to those of an answer. */
const MATRIX = [
  "resourceVersion=0",
  "resourceVersion=0&resourceVersionMatch=NotOlderThan",
  "resourceVersion=0&resourceVersionMatch=Exact",
  "resourceVersionMatch=NotOlderThan",
  "resourceVersionMatch=Exact",
  "resourceVersion=$first.metadata.resourceVersion",
  "resourceVersion=$first.metadata.resourceVersion&resourceVersionMatch=NotOlderThan",
  "resourceVersion=$first.metadata.resourceVersion&resourceVersionMatch=Exact",
  "resourceVersion=$first.metadata.resourceVersion&resourceVersionMatch=Sometimes",
  "resourceVersion=$first.metadata.resourceVersion&limit=1",
  "resourceVersion=$first.metadata.resourceVersion&limit=1&resourceVersionMatch=NotOlderThan",
  "resourceVersion=0&limit=1",
  "resourceVersion=x",
  "resourceVersion=-1",
  "sendInitialEvents=true",
  "limit=x",
  "limit=-1",
  "timeoutSeconds=x",
  "watch=false",
  "watch=0",
];

export const scenarios = area("lists", [
  scenario("a list is read in pages", [
    five,
    get(`${MAPS}?limit=2`, { name: "first" }),
    post(MAPS, map("bb")),
    del(`${MAPS}/e`),
    get(`${MAPS}?limit=2&continue=$first.metadata.continue`, { name: "second" }),
    get(`${MAPS}?limit=2&continue=$second.metadata.continue`),
    get(`${MAPS}?continue=$first.metadata.continue`),
    get(`${MAPS}?limit=500`),
    get(`${MAPS}?limit=0`),
    get(`${MAPS}?limit=5`),
  ]),
  scenario("pages with a selector have no remainingItemCount", [
    five,
    get(`${MAPS}?limit=1&labelSelector=n%20in%20(1,3)`, { name: "first" }),
    get(`${MAPS}?limit=1&labelSelector=n%20in%20(1,3)&continue=$first.metadata.continue`),
  ]),
  scenario("continue tokens are checked", [
    five,
    get(`${MAPS}?limit=2`, { name: "first" }),
    get(`${MAPS}?limit=2&continue=nonsense`),
    get(`${MAPS}?limit=2&continue=$first.metadata.continue&resourceVersion=5`),
    get(`${MAPS}?limit=2&continue=$first.metadata.continue&resourceVersion=0`),
    get(`${MAPS}?limit=2&continue=$first.metadata.continue&resourceVersionMatch=Exact`),
    get(`/api/v1/namespaces/$ns/secrets?limit=2&continue=$first.metadata.continue`),
  ]),
  scenario("valid combinations of revisions, limits and timeouts", [
    given(post(MAPS, map("a"), { name: "first" }), post(MAPS, map("b"), { name: "second" })),
    ...MATRIX.map((query) => get(`${MAPS}?${query}`)),
  ]),
  scenario("an exact revision returns the state at that revision", [
    post(MAPS, map("a"), { name: "first" }),
    post(MAPS, map("b"), { name: "second" }),
    patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
    del(`${MAPS}/b`),
    get(`${MAPS}?resourceVersion=$first.metadata.resourceVersion&resourceVersionMatch=Exact`),
    get(`${MAPS}?resourceVersion=$second.metadata.resourceVersion&resourceVersionMatch=Exact`),
    get(MAPS),
  ]),
  scenario("waiting for a future revision times out", [
    get(`${MAPS}?resourceVersion=999999999`),
    get(`${MAPS}?resourceVersion=999999999&resourceVersionMatch=Exact`),
    get(`${MAPS}/a?resourceVersion=999999999`),
  ]),
  scenario("an object is read at a revision", [
    post(MAPS, map("a"), { name: "made" }),
    get(`${MAPS}/a?resourceVersion=0`),
    get(`${MAPS}/a?resourceVersion=$made.metadata.resourceVersion`),
    get(`${MAPS}/a?resourceVersion=x`),
    get(`${MAPS}/b?resourceVersion=0`),
  ]),
  scenario("labels select", [
    five,
    ...[
      "n=1",
      "n==1",
      "n!=1",
      "n in (1,2)",
      "n notin (1,2)",
      "a",
      "!a",
      "n,!a,n!=3",
      "n>2",
      "n<2",
      "n in ()",
      "n=",
      "",
      "a=",
      "n=(",
      "n in 1",
      "-x=1",
      "n=a b",
      "n>x",
      "!a=1",
      ",",
      "n=1,",
      `${"n".repeat(64)}=1`,
      `n=${"1".repeat(64)}`,
    ].map((it) => get(`${MAPS}?labelSelector=${encodeURIComponent(it)}`, { view: namesOf })),
  ]),
  scenario("fields select", [
    five,
    ...[
      "metadata.name=a",
      "metadata.name==a",
      "metadata.name!=a",
      "metadata.namespace=$ns",
      "metadata.namespace=other",
      "metadata.name=a,metadata.namespace!=x",
      "metadata.name=A B",
      "metadata.uid=x",
      "data.x=y",
      "metadata.name",
      "=a",
      "",
      "metadata.name in (a)",
      String.raw`metadata.name=a\,b`,
      "metadata.name>a",
    ].map((it) =>
      get(`${MAPS}?fieldSelector=${encodeURIComponent(it).replaceAll("%24", "$")}`, { view: namesOf }),
    ),
  ]),
  scenario("fields of pods, secrets, services, nodes and namespaces select", [
    given(
      post("/api/v1/namespaces/$ns/pods", {
        metadata: { name: "a" },
        spec: { nodeName: "n1", containers: [{ name: "c", image: "i" }] },
      }),
      post("/api/v1/namespaces/$ns/pods", {
        metadata: { name: "b" },
        spec: { restartPolicy: "Never", hostNetwork: true, containers: [{ name: "c", image: "i" }] },
      }),
      post("/api/v1/namespaces/$ns/secrets", { metadata: { name: "a" }, type: "example.com/t" }),
      post("/api/v1/namespaces/$ns/services", {
        metadata: { name: "a" },
        spec: { clusterIP: "None", ports: [{ port: 1 }] },
      }),
      post("/api/v1/nodes", { metadata: { name: "$id", labels: { scenario: "$id" } } }),
    ),
    ...[
      "pods?fieldSelector=spec.nodeName%3Dn1",
      "pods?fieldSelector=spec.nodeName%3D",
      "pods?fieldSelector=spec.restartPolicy%3DNever",
      "pods?fieldSelector=spec.schedulerName%3Ddefault-scheduler",
      "pods?fieldSelector=spec.serviceAccountName%3D",
      "pods?fieldSelector=spec.hostNetwork%3Dtrue",
      "pods?fieldSelector=status.phase%3DPending",
      "pods?fieldSelector=status.podIP%3D",
      "pods?fieldSelector=status.nominatedNodeName%3D",
      "pods?fieldSelector=spec.containers%3Dc",
      "secrets?fieldSelector=type%3Dexample.com/t",
      "services?fieldSelector=spec.clusterIP%3DNone",
      "services?fieldSelector=spec.type%3DClusterIP",
      "services?fieldSelector=spec.type%3DNodePort",
    ].map((it) => get(`/api/v1/namespaces/$ns/${it}`, { view: namesOf })),
    get(`/api/v1/nodes?${SELECT}&fieldSelector=spec.unschedulable%3Dfalse`, { view: namesOf }),
    get(`/api/v1/nodes?${SELECT}&fieldSelector=spec.unschedulable%3Dtrue`, { view: namesOf }),
    get(
      "/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name%3D$ns&fieldSelector=status.phase%3DActive",
      {
        view: namesOf,
      },
    ),
    get("/api/v1/namespaces?fieldSelector=metadata.name%3D$ns", { view: namesOf }),
  ]),
  scenario("fields of workloads and other groups select", [
    get("/apis/apps/v1/namespaces/$ns/deployments?fieldSelector=metadata.name%3Da"),
    get("/apis/apps/v1/namespaces/$ns/deployments?fieldSelector=spec.replicas%3D1"),
    get("/apis/apps/v1/namespaces/$ns/replicasets?fieldSelector=status.replicas%3D0"),
    get("/apis/batch/v1/namespaces/$ns/jobs?fieldSelector=status.successful%3D0"),
    get("/apis/coordination.k8s.io/v1/namespaces/$ns/leases?fieldSelector=spec.holderIdentity%3Da"),
    get("/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices?fieldSelector=addressType%3DIPv4"),
    get(
      "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.signerName%3Dexample.com/$id",
    ),
  ]),
  scenario("selectable fields of custom resources", [
    definition(
      widgetDefinition(
        {
          type: "object",
          properties: {
            spec: {
              type: "object",
              properties: {
                colour: { type: "string" },
                size: { type: "integer" },
                other: { type: "string" },
              },
            },
          },
        },
        { version: { selectableFields: [{ jsonPath: ".spec.colour" }, { jsonPath: ".spec.size" }] } },
      ),
    ),
    given(
      ...[
        ["a", { colour: "red", size: 1 }],
        ["b", { colour: "blue", size: 2 }],
        ["c", {}],
      ].map(([name, spec]) =>
        post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name }, spec }),
      ),
    ),
    ...[
      "spec.colour=red",
      "spec.colour!=red",
      "spec.size=2",
      "spec.colour=",
      "spec.other=x",
      "metadata.name=b",
    ].map((it) => get(`${WIDGETS}?fieldSelector=${encodeURIComponent(it)}`, { view: namesOf })),
  ]),
  scenario("lists of all namespaces", [
    given(post(MAPS, map("a"))),
    get(`/api/v1/configmaps?${SELECT}`),
    get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D$ns"),
    get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D$ns,metadata.name%3Da"),
  ]),
  scenario("an empty list, also in a namespace that does not exist", [
    get(MAPS),
    get("/api/v1/namespaces/absent-$id/configmaps"),
    get("/apis/apps/v1/namespaces/$ns/deployments"),
  ]),
]);

/** The names in a list, which is what a selection is about. */
function namesOf(body: unknown): unknown {
  return (body as { items: { metadata: { name: string } }[] }).items.map((it) => it.metadata.name);
}
