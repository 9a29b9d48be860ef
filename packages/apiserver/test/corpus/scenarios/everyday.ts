import { definition, widgetDefinition, WIDGETS } from "../definitions.ts";
import { area, get, given, patch, post, put, scenario } from "../scenario.ts";

/** Requests of everyday clients: charts of databases, envtest, Argo CD, kubectl, and libraries that PUT what they built. */

const APPS = "/apis/apps/v1/namespaces/$ns";
const POLICIES = "/apis/admissionregistration.k8s.io/v1";
const FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1";
const CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps";
const labels = { app: "db" };
const container = (more: object = {}): object => ({ name: "c", image: "example.com/c:1", ...more });

const claim = (name: string, spec: object = {}): object => ({
  metadata: { name },
  spec: {
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: "1Gi" } },
    ...spec,
  },
});
const statefulSet = (name: string, spec: object, pod: object = {}): object => ({
  apiVersion: "apps/v1",
  kind: "StatefulSet",
  metadata: { name },
  spec: {
    serviceName: "db",
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [container()], ...pod } },
    ...spec,
  },
});
const mounts = (...names: readonly string[]): object => ({
  containers: [container({ volumeMounts: names.map((name) => ({ name, mountPath: `/${name}` })) })],
});

const daemonSet = (name: string): object => ({
  apiVersion: "apps/v1",
  kind: "DaemonSet",
  metadata: { name },
  spec: {
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: { hostNetwork: true, containers: [container({ ports: [{ containerPort: 9100 }] })] },
    },
  },
});

const admissionPolicy = (message: string): object => ({
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "ValidatingAdmissionPolicy",
  metadata: { name: "$id" },
  spec: {
    matchConstraints: {
      resourceRules: [
        { apiGroups: ["$id"], apiVersions: ["v1"], operations: ["CREATE"], resources: ["nothing"] },
      ],
    },
    validations: [{ expression: "true", message }],
  },
});
const policyBinding = (policyName: string): object => ({
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "ValidatingAdmissionPolicyBinding",
  metadata: { name: "$id" },
  spec: { policyName, validationActions: ["Deny"] },
});
const flowSchema = (matchingPrecedence: number): object => ({
  apiVersion: "flowcontrol.apiserver.k8s.io/v1",
  kind: "FlowSchema",
  metadata: { name: "$id" },
  spec: { matchingPrecedence, priorityLevelConfiguration: { name: "exempt" } },
});
const priorityLevel = (nominalConcurrencyShares: number): object => ({
  apiVersion: "flowcontrol.apiserver.k8s.io/v1",
  kind: "PriorityLevelConfiguration",
  metadata: { name: "$id" },
  spec: { type: "Limited", limited: { nominalConcurrencyShares, limitResponse: { type: "Reject" } } },
});

const object = (properties: object, more: object = {}): object => ({ type: "object", properties, ...more });
const text = { type: "string" };
const widget = (more: object, version = "v1"): object => ({
  apiVersion: `$id.example.com/${version}`,
  kind: "Widget",
  metadata: { name: "w" },
  ...more,
});
const RULED = object({
  spec: object(
    {
      a: { type: "string", minLength: 2 },
      b: { type: "string", pattern: "^x" },
      list: {
        type: "array",
        maxItems: 3,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        items: object({ k: { type: "string", maxLength: 5 } }, { required: ["k"] }),
      },
      choice: { type: "string", enum: ["z", "a"] },
      address: object(
        { type: { type: "string" }, value: { type: "string" } },
        {
          oneOf: [
            {
              properties: {
                type: { enum: ["IPAddress"] },
                value: { anyOf: [{ format: "ipv4" }, { format: "ipv6" }] },
              },
            },
            { properties: { type: { not: { enum: ["IPAddress"] } } } },
          ],
        },
      ),
    },
    {
      "x-kubernetes-validations": [{ rule: "!has(self.b) || self.b == 'xx'", message: "b must be xx" }],
    },
  ),
});

const TWO_VERSIONS = widgetDefinition(undefined, {
  spec: {
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: object({
            spec: object({ a: { type: "integer" }, d: { type: "string", default: "dv1" }, both: text }),
          }),
        },
      },
      {
        name: "v2",
        served: true,
        storage: false,
        schema: {
          openAPIV3Schema: object({
            spec: object({
              a: { type: "integer" },
              c: { type: "string", default: "dv2" },
              d: text,
              both: text,
              old: text,
            }),
          }),
        },
      },
    ],
  },
});
const V2 = WIDGETS.replace("/v1/", "/v2/");
const specOf = (body: unknown): unknown => (body as { spec?: unknown }).spec;

const MIN_READY = { apiVersion: "apps/v1", kind: "StatefulSet", spec: { minReadySeconds: 3 } };

export const scenarios = area("everyday", [
  scenario("a configuration without a name, which the path has", [
    given(post(`${APPS}/statefulsets`, statefulSet("a", {}))),
    patch("apply", `${APPS}/statefulsets/a/scale?fieldManager=m&force=true`, {
      apiVersion: "autoscaling/v1",
      kind: "Scale",
      spec: { replicas: 2 },
    }),
    patch("apply", `${APPS}/statefulsets/a?fieldManager=n`, MIN_READY, { view: specOf }),
    patch("apply", `${APPS}/statefulsets/none?fieldManager=n`, MIN_READY),
  ]),
  scenario("StatefulSets whose pods mount claim templates", [
    post(`${APPS}/statefulsets`, statefulSet("a", { volumeClaimTemplates: [claim("data")] }, mounts("data"))),
    post(
      `${APPS}/statefulsets`,
      statefulSet(
        "b",
        { volumeClaimTemplates: [claim("data")] },
        { ...mounts("data", "tmp"), volumes: [{ name: "tmp", emptyDir: {} }] },
      ),
    ),
    post(
      `${APPS}/statefulsets`,
      statefulSet(
        "c",
        { volumeClaimTemplates: [claim("data")] },
        { ...mounts("data"), volumes: [{ name: "data", emptyDir: {} }] },
      ),
    ),
    post(`${APPS}/statefulsets`, statefulSet("d", {}, mounts("data"))),
    post(`${APPS}/statefulsets`, statefulSet("e", {}, { hostname: "Bad_Host", subdomain: "Bad_Domain" })),
    post(`${APPS}/statefulsets`, statefulSet("f", {}, { activeDeadlineSeconds: 1, restartPolicy: "Never" })),
    post(`${APPS}/statefulsets`, statefulSet("g", { revisionHistoryLimit: -1, serviceName: "Bad_Name" })),
    post(
      `${APPS}/statefulsets`,
      statefulSet("h", {
        volumeClaimTemplates: [{ ...claim("data", { accessModes: [] }), apiVersion: "x/v1", kind: "Y" }],
      }),
    ),
    post(
      `${APPS}/statefulsets`,
      statefulSet("i", { volumeClaimTemplates: [{ ...claim("data"), apiVersion: "x/v1", kind: "Y" }] }),
    ),
    patch("merge", `${APPS}/statefulsets/a`, { spec: { template: { spec: mounts("none") } } }),
    patch("merge", `${APPS}/statefulsets/a`, { spec: { serviceName: "Other_Name" } }),
  ]),
  scenario("hostPort is a default of pods and not of templates", [
    post(`${APPS}/daemonsets`, daemonSet("a")),
    post("/api/v1/namespaces/$ns/pods?dryRun=All", {
      metadata: { name: "p" },
      spec: { hostNetwork: true, containers: [container({ ports: [{ containerPort: 9100 }] })] },
    }),
  ]),
  scenario("a PUT without resourceVersion", [
    given(
      post(`${APPS}/statefulsets`, statefulSet("a", {})),
      post(`${APPS}/daemonsets`, daemonSet("a")),
      post(`${FLOW}/flowschemas`, flowSchema(100)),
      post(`${FLOW}/prioritylevelconfigurations`, priorityLevel(10)),
      post(`${POLICIES}/validatingadmissionpolicies`, admissionPolicy("a")),
      post(`${POLICIES}/validatingadmissionpolicybindings`, policyBinding("a")),
    ),
    put(`${APPS}/statefulsets/a`, statefulSet("a", { replicas: 2 })),
    put(`${APPS}/daemonsets/a`, daemonSet("a")),
    // A real server writes the status of these in its own time.
    put(`${FLOW}/flowschemas/$id`, flowSchema(200), { view: specOf }),
    put(`${FLOW}/prioritylevelconfigurations/$id`, priorityLevel(20), { view: specOf }),
    put(`${POLICIES}/validatingadmissionpolicies/$id`, admissionPolicy("b")),
    put(`${POLICIES}/validatingadmissionpolicybindings/$id`, policyBinding("b")),
  ]),
  scenario("a PUT of an absent object", [
    put("/api/v1/namespaces/$ns/limitranges/l", {
      metadata: { name: "l" },
      spec: { limits: [{ type: "Pod", max: { cpu: "1" } }] },
    }),
    put("/apis/node.k8s.io/v1/runtimeclasses/$id", { metadata: { name: "$id" }, handler: "runc" }),
    put(`${CONFIG_MAPS}/none`, { metadata: { name: "none" } }),
  ]),
  scenario("defaults of a status", [
    ...definition(
      widgetDefinition(
        object({
          spec: object({ a: text }),
          status: { ...object({ phase: text, other: text }), default: { phase: "Pending" } },
        }),
        { version: { subresources: { status: {} } } },
      ),
    ),
    post(`${WIDGETS}?dryRun=All`, widget({})),
    post(WIDGETS, widget({ spec: { a: "1" }, status: { phase: "sent" } })),
    get(`${WIDGETS}/w`),
    patch("merge", `${WIDGETS}/w/status?fieldManager=other`, { status: { other: "x" } }),
    patch("merge", `${WIDGETS}/w?fieldManager=other`, { spec: { a: "2" } }),
  ]),
  scenario("rules of a definition with errors that do not block them, and with those that do", [
    ...definition(widgetDefinition(RULED)),
    post(WIDGETS, widget({ spec: { a: "", b: "yy" } })),
    post(WIDGETS, widget({ spec: { b: "xy", list: [{ k: "1" }, { k: "1" }] } })),
    post(WIDGETS, widget({ spec: { a: 5, b: "xy" } })),
    post(WIDGETS, widget({ spec: { b: "xy", choice: "b" } })),
    post(WIDGETS, widget({ spec: { b: "xy", list: [{}] } })),
    post(WIDGETS, widget({ spec: { b: "xy", list: [{ k: "123456" }] } })),
    post(WIDGETS, widget({ spec: { b: "xy", list: [{ k: "1" }, { k: "2" }, { k: "3" }, { k: "4" }] } })),
    post(WIDGETS, widget({ spec: { address: { type: "IPAddress", value: "1.2.3.4:8080" } } })),
    post(WIDGETS, widget({ spec: { b: "xx" } })),
    patch("merge", `${WIDGETS}/w`, { spec: { a: "", b: "yy" } }),
  ]),
  scenario("defaults of the stored version, read through another", [
    ...definition(TWO_VERSIONS),
    post(WIDGETS, widget({ spec: { a: 1 } })),
    get(`${V2}/w`),
    post(V2, { ...widget({ spec: { a: 1 } }, "v2"), metadata: { name: "x" } }, { view: specOf }),
    get(`${WIDGETS}/x`, { view: specOf }),
    post(`${V2}?dryRun=All`, widget({ spec: { old: "o", both: "b" } }, "v2"), { view: specOf }),
    patch("merge", `${V2}/x?dryRun=All`, { spec: { old: "o", both: "b" } }, { view: specOf }),
    patch("merge", `${V2}/x`, { spec: { old: "o", both: "b" } }, { view: specOf }),
  ]),
  scenario("a dry run that creates with a resourceVersion", [
    post(`${CONFIG_MAPS}?dryRun=All`, { metadata: { name: "a", resourceVersion: "5" } }),
    post(CONFIG_MAPS, { metadata: { name: "a", resourceVersion: "5" } }),
    post(CONFIG_MAPS, { metadata: { name: "A_b", resourceVersion: "5" } }),
    given(post(CONFIG_MAPS, { metadata: { name: "b" } })),
    post(CONFIG_MAPS, { metadata: { name: "b", resourceVersion: "5" } }),
  ]),
  scenario(
    "groups are discovered in the order of their priority",
    [
      ...definition(),
      get("/apis", {
        view: (body) =>
          (body as { groups: readonly { name: string }[] }).groups
            .map((it) => it.name)
            // Those of CRDs, and one of which ours serves no kinds.
            .filter((it) => !/\d/.test(it.replaceAll("k8s", "")) && it !== "resource.k8s.io"),
      }),
    ],
    { alone: true },
  ),
]);
