/** The least that the API takes of each kind, for scenarios that are about something else. */

const POD = { containers: [{ name: "c", image: "example.com/c:1" }] };
const SELECTOR = { matchLabels: { app: "a" } };
const TEMPLATE = { metadata: { labels: { app: "a" } }, spec: POD };

export interface KindOfManifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly resource: string;
  readonly namespaced: boolean;
  /** Everything except apiVersion, kind and metadata. */
  readonly content: Readonly<Record<string, unknown>>;
}

type Row = readonly [
  apiVersion: string,
  kind: string,
  resource: string,
  content?: Readonly<Record<string, unknown>>,
];

const NAMESPACED: readonly Row[] = [
  ["v1", "ConfigMap", "configmaps", { data: { k: "v" }, binaryData: { b: "AAE=" } }],
  ["v1", "Secret", "secrets", { stringData: { k: "v" } }],
  ["v1", "ServiceAccount", "serviceaccounts"],
  ["v1", "Service", "services", { spec: { selector: { app: "a" }, ports: [{ port: 80 }] } }],
  [
    "v1",
    "Endpoints",
    "endpoints",
    { subsets: [{ addresses: [{ ip: "192.0.2.1" }], ports: [{ port: 80 }] }] },
  ],
  ["v1", "Pod", "pods", { spec: POD }],
  ["v1", "PodTemplate", "podtemplates", { template: TEMPLATE }],
  ["v1", "LimitRange", "limitranges", { spec: { limits: [{ type: "Container", default: { cpu: "1" } }] } }],
  ["v1", "ResourceQuota", "resourcequotas", { spec: { hard: { "count/widgets.example.com": "5" } } }],
  [
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    { spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } } },
  ],
  [
    "v1",
    "Event",
    "events",
    {
      involvedObject: { kind: "Pod", name: "a", namespace: "$ns" },
      reason: "Because",
      message: "m",
      type: "Normal",
    },
  ],
  ["apps/v1", "Deployment", "deployments", { spec: { selector: SELECTOR, template: TEMPLATE } }],
  ["apps/v1", "ReplicaSet", "replicasets", { spec: { selector: SELECTOR, template: TEMPLATE } }],
  [
    "apps/v1",
    "StatefulSet",
    "statefulsets",
    { spec: { selector: SELECTOR, serviceName: "s", template: TEMPLATE } },
  ],
  ["apps/v1", "DaemonSet", "daemonsets", { spec: { selector: SELECTOR, template: TEMPLATE } }],
  ["apps/v1", "ControllerRevision", "controllerrevisions", { revision: 1, data: { spec: {} } }],
  ["batch/v1", "Job", "jobs", { spec: { template: { spec: { ...POD, restartPolicy: "Never" } } } }],
  [
    "batch/v1",
    "CronJob",
    "cronjobs",
    {
      spec: {
        schedule: "*/5 * * * *",
        jobTemplate: { spec: { template: { spec: { ...POD, restartPolicy: "Never" } } } },
      },
    },
  ],
  [
    "autoscaling/v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    { spec: { maxReplicas: 3, scaleTargetRef: { kind: "Deployment", name: "a", apiVersion: "apps/v1" } } },
  ],
  ["coordination.k8s.io/v1", "Lease", "leases", { spec: { holderIdentity: "h", leaseDurationSeconds: 15 } }],
  [
    "discovery.k8s.io/v1",
    "EndpointSlice",
    "endpointslices",
    { addressType: "IPv4", endpoints: [{ addresses: ["192.0.2.1"] }], ports: [{ port: 80 }] },
  ],
  ["networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", { spec: { podSelector: {} } }],
  [
    "networking.k8s.io/v1",
    "Ingress",
    "ingresses",
    { spec: { defaultBackend: { service: { name: "s", port: { number: 80 } } } } },
  ],
  [
    "policy/v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    { spec: { minAvailable: 1, selector: SELECTOR } },
  ],
  [
    "rbac.authorization.k8s.io/v1",
    "Role",
    "roles",
    { rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }] },
  ],
  [
    "rbac.authorization.k8s.io/v1",
    "RoleBinding",
    "rolebindings",
    {
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "r" },
      subjects: [{ kind: "User", name: "u" }],
    },
  ],
];

const CLUSTER_SCOPED: readonly Row[] = [
  ["v1", "Namespace", "namespaces"],
  ["v1", "Node", "nodes"],
  [
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    { spec: { capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"], hostPath: { path: "/srv" } } },
  ],
  ["rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", { rules: [] }],
  [
    "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
    {
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "r" },
      subjects: [{ kind: "Group", name: "g" }],
    },
  ],
  ["storage.k8s.io/v1", "StorageClass", "storageclasses", { provisioner: "example.com/p" }],
  ["scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", { value: 10 }],
  ["networking.k8s.io/v1", "IngressClass", "ingressclasses", { spec: { controller: "example.com/c" } }],
  ["node.k8s.io/v1", "RuntimeClass", "runtimeclasses", { handler: "h" }],
  [
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    { webhooks: [] },
  ],
  [
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    { webhooks: [] },
  ],
];

function toKind(namespaced: boolean): (row: Row) => KindOfManifest {
  return ([apiVersion, kind, resource, content = {}]) => ({
    apiVersion,
    kind,
    resource,
    namespaced,
    content,
  });
}

export const KINDS: readonly KindOfManifest[] = [
  ...NAMESPACED.map(toKind(true)),
  ...CLUSTER_SCOPED.map(toKind(false)),
];

/** Path of the collection in the scenario's namespace, or of the cluster. */
export function pathOf({ apiVersion, resource, namespaced }: KindOfManifest): string {
  const root = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
  return namespaced ? `${root}/namespaces/$ns/${resource}` : `${root}/${resource}`;
}

export function manifest(
  { apiVersion, kind, content }: KindOfManifest,
  metadata: object,
): Readonly<Record<string, unknown>> {
  return { apiVersion, kind, metadata, ...content };
}

export function kindOf(kind: string): KindOfManifest {
  const found = KINDS.find((it) => it.kind === kind);
  if (found === undefined) throw new Error(`no manifest of ${kind}`);
  return found;
}
