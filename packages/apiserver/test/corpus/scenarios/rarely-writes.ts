import { definition, widgetDefinition, WIDGETS } from "../definitions.ts";
import { kindOf, manifest, pathOf } from "../manifests.ts";
import { area, del, get, given, patch, post, put, scenario } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const TOKEN = "/api/v1/namespaces/$ns/serviceaccounts/default/token";
const CLASSES = "/apis/storage.k8s.io/v1/storageclasses";
const SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const WEB = `${pathOf(kindOf("Deployment"))}/web`;
const TERM = { matchLabelExpressions: [{ key: "zone", values: ["a"] }] };
const UID = "00000000-0000-4000-8000-000000000000";

const storageClass = (...allowedTopologies: readonly object[]): object => ({
  metadata: { name: "$id" },
  provisioner: "example.com/p",
  allowedTopologies,
});

const flowSchema = (subject: object): object => ({
  metadata: { name: "$id" },
  spec: {
    priorityLevelConfiguration: { name: "global-default" },
    rules: [{ subjects: [subject], nonResourceRules: [{ verbs: ["get"], nonResourceURLs: ["/healthz"] }] }],
  },
});
const ACCOUNT = { name: "a", namespace: "$ns" };

const node = (podCIDR: string | undefined, ...podCIDRs: readonly string[]): object => ({
  metadata: { name: "$id" },
  spec: { ...(podCIDR === undefined ? {} : { podCIDR }), podCIDRs },
});

const ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments";
const attachment = (metadata: object): object => ({
  metadata: { name: "$id", ...metadata },
  spec: { attacher: "example.com", nodeName: "n", source: { persistentVolumeName: "v" } },
});

const pod = (name: string, ...containers: readonly string[]): object => ({
  metadata: { name },
  spec: { containers: containers.map((it) => ({ name: it, image: "x" })) },
});

const scale = (replicas: unknown): object => ({
  apiVersion: "autoscaling/v1",
  kind: "Scale",
  metadata: { name: "web", namespace: "$ns" },
  spec: { replicas },
});

const BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings";
const binding = (name: string, subject: object): object => ({
  metadata: { name: "b" },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
  subjects: [subject],
});
const CSI_NODES = "/apis/storage.k8s.io/v1/csinodes";
const csiNode = (driver: object): object => ({ metadata: { name: "$id" }, spec: { drivers: [driver] } });
const WIDGET = { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name: "a" } };

const container = (fields: object): object => ({
  template: { spec: { containers: [{ name: "c", ...fields }] } },
});
/** Specs of Deployments, each with one value that has another type than its field. */
const OF_OTHER_TYPES: readonly object[] = [
  { replicas: "x" },
  { replicas: 1.5 },
  { paused: 1 },
  { paused: [] },
  { strategy: { type: true } },
  { strategy: { type: 3 } },
  { strategy: "x" },
  { strategy: { rollingUpdate: { maxSurge: 1.5 } } },
  { selector: { matchLabels: [{ a: "b" }] } },
  { selector: { matchLabels: { a: { b: "c" } } } },
  { template: { spec: { containers: "x" } } },
  { template: { spec: { volumes: [{ name: "v", hostPath: { path: "/", type: 1 } }] } } },
  { template: { spec: { volumes: [{ name: "v", emptyDir: 1 }] } } },
  container({ imagePullPolicy: {} }),
  container({ ports: [{ containerPort: 1, protocol: false }] }),
  container({ ports: [null] }),
  container({ ports: [7] }),
  container({ resources: { limits: "x" } }),
  container({ resources: { limits: { cpu: "x" } } }),
  container({ args: [1] }),
];

export const scenarios = area("rarely", [
  scenario(
    "topologies of a StorageClass that are empty or equal",
    [[{}], [TERM, TERM], [TERM, {}], [{ matchLabelExpressions: [] }]].map((terms) =>
      post(`${CLASSES}?dryRun=All`, storageClass(...terms)),
    ),
    { namespaced: false },
  ),
  scenario(
    "names of drivers that are too long, or have characters that may not be",
    ["d".repeat(64), `${"d".repeat(40)}.${"e".repeat(40)}`, "D.example.com", "a/b", "a b", "-", ""].flatMap(
      (name) => [
        post("/apis/storage.k8s.io/v1/volumeattributesclasses?dryRun=All", {
          metadata: { name: "$id" },
          driverName: name,
          parameters: { a: "b" },
        }),
        post(`${CSI_NODES}?dryRun=All`, csiNode({ name, nodeID: "n" })),
        post(`${ATTACHMENTS}?dryRun=All`, {
          metadata: { name: "$id" },
          spec: { attacher: name, nodeName: "n", source: { persistentVolumeName: "p" } },
        }),
      ],
    ),
    { namespaced: false },
  ),
  scenario(
    "a VolumeAttachment is not replaced without a resourceVersion",
    [given(post(ATTACHMENTS, attachment({}))), put(`${ATTACHMENTS}/$id`, attachment({ labels: { l: "1" } }))],
    { namespaced: false },
  ),
  scenario("subjects of a FlowSchema with the fields of other kinds", [
    post(`${SCHEMAS}?dryRun=All`, flowSchema({ kind: "User", user: { name: "u" }, serviceAccount: ACCOUNT })),
    post(`${SCHEMAS}?dryRun=All`, flowSchema({ kind: "Group", group: { name: "g" }, user: { name: "u" } })),
    post(
      `${SCHEMAS}?dryRun=All`,
      flowSchema({ kind: "ServiceAccount", user: { name: "u" }, group: { name: "g" } }),
    ),
  ]),
  scenario(
    "podCIDR and podCIDRs of a Node that differ",
    [
      node("10.1.0.0/24", "10.2.0.0/24"),
      node("10.1.0.0/24", "a b"),
      node(undefined, "a b"),
      node("10.1.0.0/24", "10.1.0.0/24", "10.3.0.0/24"),
    ].map((it) => post("/api/v1/nodes?dryRun=All", it, { view: specOf })),
    { namespaced: false },
  ),
  scenario("a request for a token names the namespace, the name and the uid of its ServiceAccount", [
    post(`${TOKEN}?dryRun=All`, { metadata: { namespace: "other" }, spec: {} }),
    post(`${TOKEN}?dryRun=All`, { metadata: { name: "other" }, spec: {} }),
    post(`${TOKEN}?dryRun=All`, { metadata: { uid: UID }, spec: {} }),
    post(TOKEN.replace("/default/", "/none/"), { metadata: { name: "other" }, spec: {} }),
  ]),
  scenario("a body for another namespace is refused by parts of pods and by reviews", [
    given(post("/api/v1/namespaces/$ns/pods", pod("p", "c"))),
    post("/api/v1/namespaces/$ns/pods/p/eviction", {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name: "p", namespace: "other" },
    }),
    post("/api/v1/namespaces/$ns/pods/p/binding", {
      metadata: { name: "p", namespace: "other" },
      target: { kind: "Node", name: "n" },
    }),
    post("/apis/authorization.k8s.io/v1/namespaces/$ns/localsubjectaccessreviews", {
      metadata: { namespace: "other" },
      spec: { user: "u", resourceAttributes: { namespace: "$ns", verb: "get", resource: "pods" } },
    }),
  ]),
  scenario(
    "field selectors without a field",
    ["%3D", "!%3D", "%3D%3D", "%3D,metadata.name%3Da", "%3Da"].map((it) =>
      get(`${MAPS}?fieldSelector=${it}`, { view: () => undefined }),
    ),
  ),
  scenario("logs of a pod that runs nowhere", [
    given(
      post("/api/v1/namespaces/$ns/pods", pod("p", "c")),
      post("/api/v1/namespaces/$ns/pods", pod("q", "c", "d")),
    ),
    get("/api/v1/namespaces/$ns/pods/p/log"),
    get("/api/v1/namespaces/$ns/pods/p/log?container=x"),
    get("/api/v1/namespaces/$ns/pods/q/log"),
    get("/api/v1/namespaces/$ns/pods/p/exec?command=x"),
  ]),
  scenario("replicas that cannot be applied through scale", [
    given(post(pathOf(kindOf("Deployment")), manifest(kindOf("Deployment"), { name: "web" }))),
    patch("apply", `${WEB}/scale?fieldManager=s`, scale(-1)),
    patch("apply", `${WEB}/scale?fieldManager=s&force=true`, scale(-1)),
    patch("apply", `${WEB}/scale?fieldManager=s&force=true`, scale("x")),
    put(`${WEB}/scale`, scale("x")),
  ]),
  scenario("values of other types, in each form of a write", [
    given(post(pathOf(kindOf("Deployment")), manifest(kindOf("Deployment"), { name: "web" }))),
    ...OF_OTHER_TYPES.flatMap((spec) => [
      put(`${WEB}?dryRun=All`, { ...manifest(kindOf("Deployment"), { name: "web" }), spec }),
      patch("merge", `${WEB}?dryRun=All`, { spec }),
      patch("strategic", `${WEB}?dryRun=All`, { spec }),
      patch("apply", `${WEB}?dryRun=All&fieldManager=m`, {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "web" },
        spec,
      }),
    ]),
    ...[[0, 255, null], [256], ["x"], 1].map((bytes) =>
      post(`${MAPS}?dryRun=All`, { metadata: { name: "b" }, binaryData: { k: bytes } }),
    ),
    post(`${MAPS}?dryRun=All`, { metadata: { name: "b" }, binaryData: [] }),
    patch("apply", `/api/v1/namespaces/$ns/secrets/s?fieldManager=m`, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "s" },
      data: { k: "a b" },
    }),
    post("/api/v1/namespaces/$ns/secrets", {
      metadata: { name: "s" },
      type: "kubernetes.io/ssh-auth",
      data: { "ssh-privatekey": null },
    }),
  ]),
  scenario("names and kinds in a RoleBinding that cannot be", [
    post(`${BINDINGS}?dryRun=All`, binding("a/b", { kind: "User", name: "u" })),
    post(`${BINDINGS}?dryRun=All`, binding("a", { kind: "" })),
    post(`${BINDINGS}?dryRun=All`, binding("a", { kind: "Service", name: "" })),
  ]),
  scenario("empty values of fields that may be absent", [
    post("/apis/networking.k8s.io/v1/namespaces/$ns/ingresses?dryRun=All", {
      metadata: { name: "i" },
      spec: { ingressClassName: "", defaultBackend: { service: { name: "s", port: { number: 80 } } } },
    }),
    post("/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices?dryRun=All", {
      metadata: { name: "e" },
      addressType: "IPv4",
      endpoints: [],
      ports: [{ name: "a", port: 80, protocol: "" }],
    }),
    post("/apis/storage.k8s.io/v1/namespaces/$ns/csistoragecapacities?dryRun=All", {
      metadata: { name: "c" },
      storageClassName: "s",
      capacity: "-1",
    }),
  ]),
  scenario(
    "a FlowSchema that moves to the first place, and drivers of a CSINode",
    [
      given(post(SCHEMAS, flowSchema({ kind: "User", user: { name: "u" } }))),
      patch("merge", `${SCHEMAS}/$id`, { spec: { matchingPrecedence: 1 } }),
      given(del(`${SCHEMAS}/$id`)),
      post(`${CSI_NODES}?dryRun=All`, csiNode({ name: "100Mi", nodeID: "n", topologyKeys: ["", "", "a b"] })),
      post(`${CSI_NODES}?dryRun=All`, csiNode({ name: "100Mi", nodeID: "n" })),
      given(
        post(CSI_NODES, csiNode({ name: "d", nodeID: "n", topologyKeys: ["a"], allocatable: { count: 1 } })),
      ),
      patch("merge", `${CSI_NODES}/$id?dryRun=All`, { spec: { drivers: [{ name: "d", nodeID: "m" }] } }),
    ],
    { namespaced: false },
  ),
  scenario(
    "a CSIDriver with an empty policy",
    [
      post("/apis/storage.k8s.io/v1/csidrivers?dryRun=All", {
        metadata: { name: "$id" },
        spec: { fsGroupPolicy: "" },
      }),
    ],
    { namespaced: false },
  ),
  scenario("values of custom resources that are almost of their types", [
    definition(
      widgetDefinition({
        type: "object",
        properties: {
          spec: {
            type: "object",
            properties: {
              bytes: { type: "string", format: "byte" },
              whole: { type: "integer", format: "int32" },
              either: { "x-kubernetes-int-or-string": true },
              set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
            },
          },
        },
      }),
    ),
    ...[
      { bytes: "" },
      { bytes: "AAA" },
      { bytes: "AAAA" },
      { whole: 1.5 },
      { whole: 3_000_000_000 },
      { whole: true },
      { whole: "x" },
      { whole: {} },
      { whole: [] },
    ].map((spec) => post(`${WIDGETS}?dryRun=All`, { ...WIDGET, spec })),
    ...[null, {}, [], true, 7].map((item) =>
      patch("apply", `${WIDGETS}/a?fieldManager=m`, { ...WIDGET, spec: { set: ["x", item] } }),
    ),
    ...[[], {}, 1.5, true].map((either) =>
      patch("apply", `${WIDGETS}/a?fieldManager=m`, { ...WIDGET, spec: { either } }),
    ),
  ]),
  scenario("options of requests for what is absent", [
    patch("merge", `${MAPS}/none?fieldValidation=x`, {}),
    patch("apply", `${MAPS}/none?fieldManager=m&fieldValidation=x`, {}),
    del(`${MAPS}/none?fieldManager=${"m".repeat(200)}`),
    given(post(MAPS, { metadata: { name: "a" } })),
    del(`${MAPS}/a?fieldManager=${"m".repeat(200)}`),
  ]),
]);

/** What a server sets in a new Node is not the matter here. */
function specOf(body: unknown): unknown {
  const { podCIDR, podCIDRs } = (body as { spec: Record<string, unknown> }).spec;
  return { podCIDR, podCIDRs };
}
