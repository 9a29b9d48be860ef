import { container, deployment, dry, pod, specOf } from "../odd-pods.ts";
import { area, del, get, given, patch, post, scenario } from "../scenario.ts";

/** Requests that clients send now and then: odd values of built-in kinds. */

const CORE = "/api/v1/namespaces/$ns";
const PODS = `${CORE}/pods`;
const APPS = "/apis/apps/v1/namespaces/$ns";
const BATCH = "/apis/batch/v1/namespaces/$ns";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const POLICIES = "/apis/admissionregistration.k8s.io/v1";
const NETWORKING = "/apis/networking.k8s.io/v1";

const AUTOSCALING = "/apis/autoscaling/v2/namespaces/$ns";
const POLICY = "/apis/policy/v1/namespaces/$ns";
const autoscaler = (more: object): object => ({
  metadata: { name: "h" },
  spec: {
    maxReplicas: 2,
    scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "d" },
    ...more,
  },
});
const claim = (spec: object): object => ({
  metadata: { name: "p" },
  spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec },
});
const webhook = (more: object): object => ({
  metadata: { name: "$id" },
  webhooks: [
    {
      name: "a.$id.example.com",
      sideEffects: "None",
      admissionReviewVersions: ["v1"],
      clientConfig: { url: "https://example.com/x" },
      ...more,
    },
  ],
});
const policy = (matchConstraints: object): object => ({
  metadata: { name: "$id" },
  spec: {
    matchConstraints: {
      resourceRules: [{ apiGroups: ["$id"], apiVersions: ["v1"], operations: ["CREATE"], resources: ["x"] }],
      ...matchConstraints,
    },
    validations: [{ expression: "true" }],
  },
});
const BAD_SELECTOR = { matchLabels: { "a b": "c" } };

export const scenarios = area("rarely", [
  scenario(
    "classes of an Ingress",
    [{ ingressClassName: "x" }, {}].map((it) =>
      dry(
        `${NETWORKING}/namespaces/$ns/ingresses`,
        {
          metadata: { name: "i", annotations: { "kubernetes.io/ingress.class": "y" } },
          spec: { defaultBackend: { service: { name: "s", port: { number: 80 } } }, ...it },
        },
        { view: specOf },
      ),
    ),
  ),
  scenario("pods with unusual values", [
    given(post(`${CORE}/serviceaccounts`, { metadata: { name: "s" } })),
    ...[
      pod("p", { serviceAccountName: "s" }, { image: " x " }),
      pod("p", { serviceAccountName: "s", hostPID: true, shareProcessNamespace: true }),
      pod("p", { serviceAccountName: "s", nodeName: "n", schedulingGates: [{ name: "g" }] }),
      pod("p", { serviceAccountName: "s", ephemeralContainers: [{ name: "e", image: "x" }] }),
      pod("p", { serviceAccountName: "s" }, { resources: { claims: [{ name: "z" }] } }),
      pod("p", { serviceAccountName: "s", priority: 5 }),
      pod("p", { serviceAccountName: "s", preemptionPolicy: "Never" }),
      pod("p", {
        serviceAccountName: "s",
        affinity: {
          podAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "$(x)", labelSelector: {} }],
          },
        },
      }),
      pod("p", {
        serviceAccountName: "s",
        topologySpreadConstraints: [
          { maxSkew: 1, topologyKey: "$(x)", whenUnsatisfiable: "DoNotSchedule", labelSelector: {} },
        ],
      }),
      pod("p", { serviceAccountName: "s" }, { resources: { requests: { cpu: "0.0001", memory: "1.5" } } }),
      pod("p", { serviceAccountName: "s", terminationGracePeriodSeconds: -1 }),
    ].map((it) => dry(PODS, it, { view: specOf })),
    dry(
      `${APPS}/statefulsets`,
      {
        metadata: { name: "s" },
        spec: {
          selector: { matchLabels: { app: "a" } },
          serviceName: "s",
          template: { metadata: { labels: { app: "a" } }, spec: { containers: [container()] } },
          volumeClaimTemplates: [
            {
              apiVersion: "x/v1",
              kind: "Foo",
              ...claim({ resources: { requests: { storage: "0.0001" } } }),
            },
          ],
        },
      },
      { view: (body: unknown) => (specOf(body) as { volumeClaimTemplates: unknown }).volumeClaimTemplates },
    ),
    dry(
      `${APPS}/deployments`,
      deployment("d", {
        template: {
          metadata: { labels: { app: "a" } },
          spec: { containers: [container({ resources: { claims: [{ name: "z" }] } })] },
        },
      }),
      { view: specOf },
    ),
    given(post(PODS, pod("q", { serviceAccountName: "s" }))),
    patch("merge", `${PODS}/q/status`, { status: { podIPs: [{ ip: "x" }] } }),
  ]),
  scenario("impossible statuses of workloads", [
    given(
      ...["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"].map((kind) =>
        post(`${APPS}/${kind.toLowerCase()}s`, {
          metadata: { name: "d" },
          spec: {
            selector: { matchLabels: { app: "a" } },
            template: { metadata: { labels: { app: "a" } }, spec: { containers: [container()] } },
            ...(kind === "StatefulSet" ? { serviceName: "s" } : {}),
          },
        }),
      ),
      post(`${AUTOSCALING}/horizontalpodautoscalers`, autoscaler({})),
      post(`${POLICY}/poddisruptionbudgets`, {
        metadata: { name: "p" },
        spec: { minAvailable: 1, selector: { matchLabels: { app: "a" } } },
      }),
      post(`${BATCH}/jobs`, {
        metadata: { name: "j" },
        spec: { template: { spec: { containers: [container()], restartPolicy: "Never" } } },
      }),
    ),
    patch("merge", `${APPS}/deployments/d/status`, { status: { replicas: -1 } }),
    patch("merge", `${APPS}/deployments/d/status`, { status: { replicas: 1, availableReplicas: 2 } }),
    patch("merge", `${APPS}/deployments/d/status`, {
      status: { replicas: 1, readyReplicas: 2, updatedReplicas: 2 },
    }),
    ...["replicasets", "statefulsets"].map((it) =>
      patch("merge", `${APPS}/${it}/d/status`, {
        status: { replicas: 1, availableReplicas: 2, readyReplicas: 1, fullyLabeledReplicas: 3 },
      }),
    ),
    patch("merge", `${APPS}/daemonsets/d/status`, { status: { numberReady: -1, collisionCount: 1 } }),
    patch("merge", `${AUTOSCALING}/horizontalpodautoscalers/h/status`, {
      status: { currentReplicas: -1, desiredReplicas: 1 },
    }),
    patch("merge", `${POLICY}/poddisruptionbudgets/p/status`, {
      status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: -1 },
    }),
    patch("merge", `${BATCH}/jobs/j/status`, {
      status: {
        active: 1,
        ready: 2,
        startTime: "2026-01-01T00:00:02Z",
        completionTime: "2026-01-01T00:00:01Z",
        conditions: [{ type: "Failed", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
      },
    }),
    patch("merge", `${BATCH}/jobs/j/status`, {
      status: {
        conditions: [{ type: "Complete", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
      },
    }),
  ]),
  scenario("claims, volumes and classes", [
    dry(`${CORE}/persistentvolumeclaims`, claim({ accessModes: ["ReadWriteOncePod", "ReadWriteOnce"] })),
    dry("/api/v1/persistentvolumes", {
      metadata: { name: "$id" },
      spec: {
        accessModes: ["ReadWriteOncePod", "ReadWriteOnce"],
        capacity: { storage: "1Gi" },
        hostPath: { path: "/x" },
      },
    }),
    dry(`${CORE}/persistentvolumeclaims`, claim({ dataSource: { kind: "X", name: "y" } }), { view: specOf }),
    ...[
      [{ matchLabelExpressions: [{ key: "a", values: ["b", "b"] }] }],
      [
        {
          matchLabelExpressions: [
            { key: "a", values: ["b"] },
            { key: "a", values: ["c"] },
          ],
        },
      ],
    ].map((allowedTopologies) =>
      dry("/apis/storage.k8s.io/v1/storageclasses", {
        metadata: { name: "$id" },
        provisioner: "example.com/x",
        allowedTopologies,
      }),
    ),
  ]),
  scenario(
    "autoscalers without policies or a group",
    [
      { behavior: { scaleUp: { policies: [] } } },
      { scaleTargetRef: { apiVersion: "", kind: "Deployment", name: "d" } },
      { scaleTargetRef: { apiVersion: "v1", kind: "ReplicationController", name: "d" } },
      { scaleTargetRef: { kind: "ReplicationController", name: "d" } },
    ].map((more) => dry(`${AUTOSCALING}/horizontalpodautoscalers`, autoscaler(more))),
  ),
  scenario("rights of odd subjects and aggregations", [
    dry(`${RBAC}/namespaces/$ns/rolebindings`, {
      metadata: { name: "r" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "r" },
      subjects: [{ kind: "ServiceAccount", name: "*", namespace: "$ns" }],
    }),
    dry(`${RBAC}/clusterroles`, {
      metadata: { name: "$id" },
      rules: [],
      aggregationRule: { clusterRoleSelectors: [] },
    }),
  ]),
  scenario("policies and webhooks with selectors that cannot be read", [
    ...[{ namespaceSelector: BAD_SELECTOR }, { objectSelector: BAD_SELECTOR }].flatMap((it) => [
      dry(`${POLICIES}/validatingadmissionpolicies`, policy(it)),
      dry(`${POLICIES}/validatingadmissionpolicybindings`, {
        metadata: { name: "$id" },
        spec: { policyName: "p", validationActions: ["Deny"], matchResources: it },
      }),
      dry(`${POLICIES}/validatingwebhookconfigurations`, webhook(it)),
    ]),
    dry(`${POLICIES}/validatingadmissionpolicybindings`, {
      metadata: { name: "$id" },
      spec: { policyName: "Bad_Name", validationActions: ["Deny"] },
    }),
    dry(`${POLICIES}/validatingwebhookconfigurations`, webhook({ admissionReviewVersions: ["v1", "1v"] })),
    dry(`${POLICIES}/validatingwebhookconfigurations`, webhook({ sideEffects: undefined })),
  ]),
  scenario("addresses that are not canonical", [
    dry("/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices", {
      metadata: { name: "e" },
      addressType: "IPv6",
      endpoints: [{ addresses: ["2001:DB8::1"] }],
    }),
    ...["10.1.2.3/24", "2001:DB8::/64", "::ffff:10.0.0.0/120", "x"].map((it) =>
      dry(`${NETWORKING}/servicecidrs`, { metadata: { name: "$id" }, spec: { cidrs: [it] } }),
    ),
  ]),
  scenario("revisions, quotas and tokens", [
    dry(`${APPS}/controllerrevisions`, { metadata: { name: "c" }, revision: -1 }),
    dry(`${CORE}/resourcequotas`, {
      metadata: { name: "q" },
      spec: { hard: { configmaps: "1" }, scopes: ["BestEffort"] },
    }),
    given(
      post(`${CORE}/resourcequotas`, {
        metadata: { name: "r" },
        spec: { hard: { pods: "1" }, scopes: ["BestEffort"] },
      }),
    ),
    patch(
      "merge",
      `${CORE}/resourcequotas/r`,
      { spec: { scopes: ["BestEffort", "BestEffort"] } },
      { view: specOf },
    ),
    given(post(`${CORE}/serviceaccounts`, { metadata: { name: "s" } })),
    post(`${CORE}/serviceaccounts/s/token`, { metadata: { name: "other" }, spec: {} }),
  ]),
  scenario("generations of kinds without a spec that changes", [
    given(post("/apis/scheduling.k8s.io/v1/priorityclasses", { metadata: { name: "$id" }, value: 5 })),
    patch(
      "merge",
      "/apis/scheduling.k8s.io/v1/priorityclasses/$id",
      { description: "x" },
      {
        view: (body) => (body as { metadata: { generation?: number } }).metadata.generation ?? "none",
      },
    ),
    given(del("/apis/scheduling.k8s.io/v1/priorityclasses/$id")),
    post(
      "/apis/storage.k8s.io/v1/csidrivers",
      { metadata: { name: "$id.example.com" }, spec: {} },
      { view: (body) => (body as { metadata: { generation?: number } }).metadata.generation ?? "none" },
    ),
    patch(
      "merge",
      "/apis/storage.k8s.io/v1/csidrivers/$id.example.com",
      { spec: { requiresRepublish: true } },
      {
        view: (body) => (body as { metadata: { generation?: number } }).metadata.generation ?? "none",
      },
    ),
  ]),
  scenario("Secrets of a ServiceAccount keep their names alone", [
    post(`${CORE}/serviceaccounts`, {
      metadata: { name: "s" },
      secrets: [{ name: "a", namespace: "b", kind: "Secret" }],
    }),
    post(
      "/api/v1/persistentvolumes",
      {
        metadata: { name: "$id" },
        spec: {
          accessModes: ["ReadWriteOnce"],
          capacity: { storage: "1Gi" },
          hostPath: { path: "/x" },
          claimRef: { namespace: "a", name: "b" },
        },
      },
      { view: specOf },
    ),
  ]),
  scenario("a limit whose default is above its maximum", [
    dry(`${CORE}/limitranges`, {
      metadata: { name: "l" },
      spec: { limits: [{ type: "Container", default: { cpu: "3" }, max: { cpu: "1" } }] },
    }),
    dry(`${APPS}/deployments`, {
      metadata: { name: "d" },
      spec: { template: { metadata: {}, spec: { containers: [container()] } } },
    }),
    dry(
      `${APPS}/deployments`,
      deployment("d", {
        template: {
          metadata: { labels: { app: "a" } },
          spec: {
            containers: [container()],
            topologySpreadConstraints: [{ maxSkew: 0, topologyKey: "x", whenUnsatisfiable: "DoNotSchedule" }],
          },
        },
      }),
    ),
  ]),
  scenario("the ranges of Services are ready", [
    get(`${NETWORKING}/servicecidrs/kubernetes`, {
      until: (body) => (body as { status: { conditions?: unknown } }).status.conditions !== undefined,
      view: (body) => (body as { status: unknown }).status,
    }),
  ]),
]);
