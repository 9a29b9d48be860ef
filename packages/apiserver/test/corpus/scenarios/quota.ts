import { area, del, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const QUOTAS = "/api/v1/namespaces/$ns/resourcequotas";
const PODS = "/api/v1/namespaces/$ns/pods";
const SERVICES = "/api/v1/namespaces/$ns/services";
const CLAIMS = "/api/v1/namespaces/$ns/persistentvolumeclaims";
const MAPS = "/api/v1/namespaces/$ns/configmaps";

type List = Readonly<Record<string, string>>;

/** A quota as a controller leaves it. The real server's admission hears of it a moment later: the reads give it time. */
function quota(hard: List, { name = "q", used = {}, spec = {} }: Partial<Quota> = {}): readonly Step[] {
  const zero = Object.fromEntries(Object.keys(hard).map((it) => [it, "0"]));
  return given(
    post(QUOTAS, { metadata: { name }, spec: { hard, ...spec } }),
    patch("merge", `${QUOTAS}/${name}/status`, { status: { hard, used: { ...zero, ...used } } }),
    ...Array.from({ length: 8 }, () => get(`${QUOTAS}/${name}`)),
  );
}

interface Quota {
  readonly name: string;
  readonly used: List;
  readonly spec: object;
}

const pod = (name: string, ...containers: readonly object[]): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: {
    automountServiceAccountToken: false,
    containers: (containers.length === 0 ? [{}] : containers).map((it, at) => ({
      name: `c${at}`,
      image: "i",
      ...it,
    })),
  },
});
const asks = (requests: List, limits: List = {}): object => ({ resources: { requests, limits } });
const withSpec = (of: object, spec: object): object => ({
  ...of,
  spec: { ...(of as { spec: object }).spec, ...spec },
});
const service = (name: string, spec: object = {}): object => ({
  metadata: { name },
  spec: { ports: [{ port: 80 }], ...spec },
});
const claim = (name: string, storage: string, spec: object = {}): object => ({
  metadata: { name },
  spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage } }, ...spec },
});
const map = (name: string): object => ({ metadata: { name } });

/** Of what is made, that it is; of refusals, all. */
const outcome = (body: unknown): unknown => {
  const { kind, reason, code, message, details, metadata } = body as Record<string, unknown> & {
    metadata: { name?: string };
  };
  return kind === "Status" ? { reason, code, message, details } : { kind, name: metadata.name };
};
const used = (name = "q"): Step =>
  get(`${QUOTAS}/${name}`, { view: (body) => (body as { status: unknown }).status });
const tries = (path: string, body: object): Step => post(path, body, { view: outcome });

export const scenarios = area("quota", [
  scenario("a quota without a status limits nothing", [
    post(QUOTAS, { metadata: { name: "q" }, spec: { hard: { pods: "0", configmaps: "0" } } }),
    tries(MAPS, map("a")),
    used(),
  ]),
  scenario("a resource that was never counted has an unknown remainder", [
    given(
      post(QUOTAS, { metadata: { name: "q" }, spec: { hard: { secrets: "2", pods: "1" } } }),
      patch("merge", `${QUOTAS}/q/status`, { status: { hard: { pods: "1", "requests.cpu": "1" } } }),
      ...Array.from({ length: 8 }, () => get(`${QUOTAS}/q`)),
    ),
    tries(MAPS, map("a")),
    tries(PODS, pod("a", asks({ cpu: "1" }))),
  ]),
  scenario("a pod counts with all its requests", [
    ...quota({
      pods: "4",
      "count/pods": "4",
      cpu: "4",
      memory: "4Gi",
      "requests.cpu": "4",
      "requests.memory": "4Gi",
      "requests.ephemeral-storage": "4Gi",
      "limits.cpu": "4",
      "limits.memory": "4Gi",
      "limits.ephemeral-storage": "4Gi",
      "requests.example.com/gpu": "4",
      "hugepages-2Mi": "4Gi",
      "requests.hugepages-2Mi": "4Gi",
    }),
    tries(
      PODS,
      pod("a", {
        resources: {
          requests: { cpu: "250m", memory: "100M", "ephemeral-storage": "1Gi" },
          limits: { cpu: "1", memory: "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi" },
        },
      }),
    ),
    used(),
    tries(
      PODS,
      pod("b", {
        resources: {
          requests: { cpu: "0.5", memory: "100Mi" },
          limits: { cpu: "1", memory: "1Gi", "ephemeral-storage": "1500" },
        },
      }),
    ),
    used(),
    get(`${QUOTAS}/q`, {
      view: (body) => (body as { metadata: { managedFields: unknown } }).metadata.managedFields,
    }),
  ]),
  scenario("a pod counts with its peak usage", [
    ...quota({ "requests.cpu": "10", "limits.memory": "10Gi" }),
    tries(
      PODS,
      withSpec(pod("a", asks({ cpu: "1" }, { memory: "1Gi" }), asks({ cpu: "1" }, { memory: "1Gi" })), {
        initContainers: [
          { name: "first", image: "i", ...asks({ cpu: "3" }, { memory: "1Gi" }) },
          { name: "car", image: "i", restartPolicy: "Always", ...asks({ cpu: "1" }, { memory: "512Mi" }) },
          { name: "second", image: "i", ...asks({ cpu: "2500m" }, { memory: "64Mi" }) },
        ],
      }),
    ),
    used(),
    tries(
      PODS,
      withSpec(pod("b"), { resources: { requests: { cpu: "2" }, limits: { cpu: "2", memory: "100Mi" } } }),
    ),
    used(),
  ]),
  scenario("requests that exceed a quota are rejected", [
    ...quota({ "requests.cpu": "1", "limits.memory": "1Gi", pods: "2" }),
    tries(PODS, pod("a", asks({ cpu: "600m" }, { memory: "600Mi" }))),
    tries(PODS, pod("b", asks({ cpu: "600m" }, { memory: "1536Mi" }))),
    tries(PODS, pod("c", asks({ cpu: "500m" }, { memory: "10Mi" }))),
    tries(PODS, pod("d", asks({ cpu: "400m" }, { memory: "424Mi" }))),
    tries(PODS, pod("e", asks({ cpu: "1m" }, { memory: "1Mi" }))),
    used(),
  ]),
  scenario("containers must request resources that a quota limits", [
    ...quota({
      cpu: "1",
      "limits.cpu": "1",
      memory: "1Gi",
      "requests.memory": "1Gi",
      "requests.ephemeral-storage": "1Gi",
    }),
    tries(PODS, pod("a")),
    tries(PODS, pod("b", asks({ cpu: "1m", memory: "1Mi" }), asks({ cpu: "1m" }, { cpu: "2m" }))),
    tries(
      PODS,
      withSpec(pod("c", asks({ cpu: "1m", memory: "1Mi" }, { cpu: "1m" })), {
        initContainers: [{ name: "init", image: "i", ...asks({ cpu: "1m" }) }],
      }),
    ),
    tries(PODS, pod("d", asks({ cpu: "1m", memory: "1Mi" }, { cpu: "1m" }))),
    tries(PODS, withSpec(pod("e"), { resources: { requests: { cpu: "2m" } } })),
    used(),
  ]),
  scenario("all quotas are checked, and none is charged if another rejects the request", [
    ...quota({ pods: "5" }, { name: "a" }),
    ...quota({ "count/pods": "1" }, { name: "b" }),
    tries(PODS, pod("a")),
    tries(PODS, pod("b")),
    used("a"),
    used("b"),
  ]),
  scenario("a quota of a scope counts the pods of that scope", [
    ...quota({ pods: "1" }, { name: "ending", spec: { scopes: ["Terminating"] } }),
    ...quota({ pods: "1" }, { name: "staying", spec: { scopes: ["NotTerminating"] } }),
    tries(PODS, withSpec(pod("a"), { activeDeadlineSeconds: 100 })),
    tries(PODS, withSpec(pod("b"), { activeDeadlineSeconds: 100 })),
    tries(PODS, pod("c")),
    used("ending"),
    used("staying"),
    // Now it would end as well, and there is room for one.
    patch("merge", `${PODS}/c`, { spec: { activeDeadlineSeconds: 10 } }, { view: outcome }),
    used("ending"),
    used("staying"),
  ]),
  scenario("a pod that comes to end counts where pods end", [
    ...quota({ pods: "1" }, { name: "ending", spec: { scopes: ["Terminating"] } }),
    tries(PODS, pod("a")),
    patch("merge", `${PODS}/a`, { spec: { activeDeadlineSeconds: 10 } }, { view: outcome }),
    used("ending"),
    patch("merge", `${PODS}/a`, { spec: { activeDeadlineSeconds: 5 } }, { view: outcome }),
    used("ending"),
  ]),
  scenario("pods without requests have their own scope", [
    ...quota({ pods: "1" }, { name: "best", spec: { scopes: ["BestEffort"] } }),
    ...quota({ pods: "1", cpu: "1" }, { name: "other", spec: { scopes: ["NotBestEffort"] } }),
    tries(PODS, pod("a")),
    tries(PODS, pod("b")),
    tries(PODS, pod("c", asks({ cpu: "100m" }))),
    tries(PODS, pod("d", asks({ memory: "1Mi" }))),
    used("best"),
    used("other"),
  ]),
  scenario("a scope selector selects pods by their priority class", [
    given(
      post("/apis/scheduling.k8s.io/v1/priorityclasses", { metadata: { name: "high-$id" }, value: 1000 }),
      post("/apis/scheduling.k8s.io/v1/priorityclasses", { metadata: { name: "low-$id" }, value: 1 }),
      ...Array.from({ length: 8 }, () => get("/apis/scheduling.k8s.io/v1/priorityclasses/low-$id")),
    ),
    ...(
      [
        ["in", { operator: "In", values: ["high-$id"] }],
        ["not-in", { operator: "NotIn", values: ["high-$id"] }],
        ["exists", { operator: "Exists" }],
        ["absent", { operator: "DoesNotExist" }],
      ] as const
    ).flatMap(([name, expression]) =>
      quota(
        { pods: "5" },
        {
          name,
          spec: { scopeSelector: { matchExpressions: [{ scopeName: "PriorityClass", ...expression }] } },
        },
      ),
    ),
    tries(PODS, withSpec(pod("a"), { priorityClassName: "high-$id" })),
    tries(PODS, withSpec(pod("b"), { priorityClassName: "low-$id" })),
    tries(PODS, pod("c")),
    ...["in", "not-in", "exists", "absent"].map((it) => used(it)),
    given(
      del("/apis/scheduling.k8s.io/v1/priorityclasses/high-$id"),
      del("/apis/scheduling.k8s.io/v1/priorityclasses/low-$id"),
    ),
  ]),
  scenario("pods that look into other namespaces have a scope", [
    ...quota({ pods: "0" }, { spec: { scopes: ["CrossNamespacePodAffinity"] } }),
    tries(PODS, pod("a")),
    tries(
      PODS,
      withSpec(pod("b"), {
        affinity: {
          podAntiAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [
              { weight: 1, podAffinityTerm: { topologyKey: "zone", namespaces: ["other"] } },
            ],
          },
        },
      }),
    ),
    tries(
      PODS,
      withSpec(pod("c"), {
        affinity: {
          podAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "zone", namespaceSelector: {} }],
          },
        },
      }),
    ),
  ]),
  scenario("a dry run is checked and not charged", [
    ...quota({ configmaps: "1" }),
    tries(`${MAPS}?dryRun=All`, map("a")),
    used(),
    tries(MAPS, map("a")),
    tries(`${MAPS}?dryRun=All`, map("b")),
    used(),
  ]),
  scenario("Services count by their type", [
    ...quota({
      services: "4",
      "count/services": "4",
      "services.nodeports": "4",
      "services.loadbalancers": "1",
    }),
    tries(SERVICES, service("a")),
    tries(
      SERVICES,
      service("b", { type: "NodePort", ports: [80, 81].map((port) => ({ name: `p${port}`, port })) }),
    ),
    tries(SERVICES, service("c", { type: "LoadBalancer", allocateLoadBalancerNodePorts: false })),
    used(),
    tries(SERVICES, service("d", { type: "LoadBalancer" })),
    patch("merge", `${SERVICES}/a`, { spec: { type: "NodePort" } }, { view: outcome }),
    used(),
    patch("merge", `${SERVICES}/a`, { spec: { type: "LoadBalancer" } }, { view: outcome }),
    patch(
      "merge",
      `${SERVICES}/a`,
      { spec: { ports: [80, 81, 82].map((port) => ({ name: `p${port}`, port })) } },
      { view: outcome },
    ),
    patch("merge", `${SERVICES}/a`, { spec: { type: "ClusterIP" } }, { view: outcome }),
    used(),
    patch("merge", `${SERVICES}/a`, { metadata: { labels: { a: "b" } } }, { view: outcome }),
    used(),
  ]),
  scenario("claims count by their requests, and by their class", [
    ...quota({
      persistentvolumeclaims: "3",
      "count/persistentvolumeclaims": "3",
      "requests.storage": "10Gi",
      "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
      "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "2",
      "silver.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
    }),
    tries(CLAIMS, claim("a", "3Gi", { storageClassName: "gold" })),
    tries(CLAIMS, claim("b", "3Gi", { storageClassName: "gold" })),
    tries(CLAIMS, claim("c", "1500", { storageClassName: "bronze" })),
    tries(CLAIMS, claim("d", "1Gi", { storageClassName: "silver" })),
    tries(CLAIMS, claim("e", "8Gi")),
    used(),
  ]),
  scenario("a claim that grows counts for the difference", [
    ...quota({ "requests.storage": "3Gi" }),
    given(
      post("/apis/storage.k8s.io/v1/storageclasses", {
        metadata: { name: "grows-$id" },
        provisioner: "example.com/p",
        allowVolumeExpansion: true,
      }),
    ),
    tries(CLAIMS, claim("a", "1Gi", { storageClassName: "grows-$id", volumeName: "v-$id" })),
    given(patch("merge", `${CLAIMS}/a/status`, { status: { phase: "Bound", capacity: { storage: "1Gi" } } })),
    patch(
      "merge",
      `${CLAIMS}/a`,
      { spec: { resources: { requests: { storage: "2Gi" } } } },
      { view: outcome },
    ),
    used(),
    patch(
      "merge",
      `${CLAIMS}/a`,
      { spec: { resources: { requests: { storage: "4Gi" } } } },
      { view: outcome },
    ),
    // What was given already is not refused.
    patch(
      "merge",
      `${CLAIMS}/a/status`,
      { status: { allocatedResources: { storage: "5Gi" } } },
      { view: outcome },
    ),
    used(),
    given(del("/apis/storage.k8s.io/v1/storageclasses/grows-$id")),
  ]),
  scenario("other objects are counted by name", [
    ...quota({
      configmaps: "2",
      "count/configmaps": "2",
      secrets: "1",
      resourcequotas: "3",
      replicationcontrollers: "0",
      "count/deployments.apps": "1",
      "count/leases.coordination.k8s.io": "0",
      "count/events": "0",
    }),
    tries(MAPS, map("a")),
    tries(MAPS, map("b")),
    tries(MAPS, map("c")),
    tries("/api/v1/namespaces/$ns/secrets", map("a")),
    tries("/api/v1/namespaces/$ns/secrets", map("b")),
    tries(QUOTAS, { metadata: { name: "second" }, spec: { hard: { pods: "1" } } }),
    tries("/apis/coordination.k8s.io/v1/namespaces/$ns/leases", map("a")),
    tries("/api/v1/namespaces/$ns/replicationcontrollers", {
      metadata: { name: "r" },
      spec: {
        selector: { a: "b" },
        template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } },
      },
    }),
    used(),
  ]),
  scenario("server-side apply and updates that create are counted too", [
    ...quota({ configmaps: "1" }),
    patch(
      "apply",
      `${MAPS}/a?fieldManager=m`,
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
      { view: outcome },
    ),
    patch(
      "apply",
      `${MAPS}/b?fieldManager=m`,
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "b" } },
      { view: outcome },
    ),
    put(`${MAPS}/a`, { metadata: { name: "a" }, data: { x: "1" } }, { view: outcome }),
    used(),
  ]),
  scenario("the quota is checked before a name conflict is detected", [
    ...quota({ configmaps: "1" }),
    tries(MAPS, map("a")),
    tries(MAPS, map("a")),
  ]),
]);
