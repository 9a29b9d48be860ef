import type { PolicyRule, RoleBinding } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { ApiObject } from "#values/object.ts";
import { ALL_SERVICE_ACCOUNTS_GROUP } from "#values/service-account.ts";
import { AUTHENTICATED_GROUP, MASTERS_GROUP, UNAUTHENTICATED_GROUP } from "#values/authorizer.ts";

/** Roles that charts and controllers rely on. Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy. */

const RBAC = "rbac.authorization.k8s.io";
const AGGREGATE = `${RBAC}/aggregate-to-`;
const READ = ["get", "list", "watch"];
const WRITE = ["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

type Resources = readonly (readonly [group: string, resources: readonly string[]])[];

function rules(verbs: readonly string[], resources: Resources): PolicyRule[] {
  return resources.map(([apiGroup, plurals]) => ({
    verbs: [...verbs],
    apiGroups: [apiGroup],
    resources: [...plurals],
  }));
}

function role(
  name: string,
  its: Partial<Record<"rules" | "aggregationRule", unknown>>,
  labels = {},
): ApiObject {
  const metadata = defaultMetadata(name, labels);
  return { apiVersion: `${RBAC}/v1`, kind: "ClusterRole", metadata, rules: [], ...its };
}

function defaultMetadata(name: string, labels = {}): ApiObject["metadata"] {
  return {
    name,
    labels: { "kubernetes.io/bootstrapping": "rbac-defaults", ...labels },
    annotations: { "rbac.authorization.kubernetes.io/autoupdate": "true" },
  };
}

/** A role for people, made of all roles that carry a label: operators add to it by labelling theirs. */
function aggregated(name: string, labels = {}): ApiObject {
  const clusterRoleSelectors = [{ matchLabels: { [`${AGGREGATE}${name}`]: "true" } }];
  return role(name, { aggregationRule: { clusterRoleSelectors } }, labels);
}

function part(of: string, its: PolicyRule[]): ApiObject {
  return role(`system:aggregate-to-${of}`, { rules: its }, { [`${AGGREGATE}${of}`]: "true" });
}

function bind(name: string, roleName: string, ...subjects: readonly Subject[]): ApiObject {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: "ClusterRoleBinding",
    metadata: defaultMetadata(name),
    roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: roleName },
    subjects: [...subjects],
  };
}

type Subject = NonNullable<RoleBinding["subjects"]>[number];

function group(name: string): Subject {
  return { kind: "Group", apiGroup: RBAC, name };
}

function user(name: string): Subject {
  return { kind: "User", apiGroup: RBAC, name };
}

const WORKLOADS: Resources = [
  ["apps", ["daemonsets", "deployments", "replicasets", "statefulsets"]],
  ["autoscaling", ["horizontalpodautoscalers"]],
  ["batch", ["cronjobs", "jobs"]],
  ["networking.k8s.io", ["ingresses", "networkpolicies"]],
  ["policy", ["poddisruptionbudgets"]],
];
const STATUSES: Resources = [
  ["apps", ["daemonsets/status", "deployments/status", "replicasets/status", "statefulsets/status"]],
  ["autoscaling", ["horizontalpodautoscalers/status"]],
  ["batch", ["cronjobs/status", "jobs/status"]],
  ["networking.k8s.io", ["ingresses/status"]],
  ["policy", ["poddisruptionbudgets/status"]],
];
const SCALES: Resources = [["apps", ["deployments/scale", "replicasets/scale", "statefulsets/scale"]]];
const CORE_OF_USERS = [
  "configmaps",
  "endpoints",
  "persistentvolumeclaims",
  "pods",
  "serviceaccounts",
  "services",
];
const CORE_TO_VIEW = [
  "bindings",
  "events",
  "limitranges",
  "namespaces",
  "namespaces/status",
  "persistentvolumeclaims/status",
  "pods/log",
  "pods/status",
  "resourcequotas",
  "resourcequotas/status",
  "services/status",
];

/** For people, per namespace: see most, change most, and hand out permissions. */
function userRoles(): readonly ApiObject[] {
  return [
    aggregated("admin"),
    aggregated("edit", { [`${AGGREGATE}admin`]: "true" }),
    aggregated("view", { [`${AGGREGATE}edit`]: "true" }),
    part("admin", [
      ...rules(["create"], [["authorization.k8s.io", ["localsubjectaccessreviews"]]]),
      ...rules(READ_WRITE, [[RBAC, ["rolebindings", "roles"]]]),
    ]),
    part("edit", [
      ...rules(READ, [
        ["", ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"]],
      ]),
      ...rules(["impersonate"], [["", ["serviceaccounts"]]]),
      ...rules(["create"], [["", ["pods/eviction", "serviceaccounts/token"]]]),
      ...rules(WRITE, [
        [
          "",
          [
            ...CORE_OF_USERS,
            "events",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "secrets",
          ],
        ],
        ["coordination.k8s.io", ["leases"]],
        ...WORKLOADS,
        ...SCALES,
      ]),
      ...rules(READ, [["coordination.k8s.io", ["leases"]]]),
    ]),
    part("view", [
      ...rules(READ, [
        ["", [...CORE_OF_USERS, ...CORE_TO_VIEW]],
        ["discovery.k8s.io", ["endpointslices"]],
        ...WORKLOADS,
        ...STATUSES,
        ...SCALES,
      ]),
    ]),
  ];
}

/** For everybody who has logged in, and what may be seen without. */
function publicRoles(): readonly ApiObject[] {
  const health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
  const discovery = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", ...health];
  return [
    role("cluster-admin", {
      rules: [
        { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
        { verbs: ["*"], nonResourceURLs: ["*"] },
      ],
    }),
    role("system:discovery", { rules: [{ verbs: ["get"], nonResourceURLs: discovery }] }),
    role("system:public-info-viewer", { rules: [{ verbs: ["get"], nonResourceURLs: health }] }),
    role("system:basic-user", {
      rules: [
        ...rules(
          ["create"],
          [
            ["authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]],
            ["authentication.k8s.io", ["selfsubjectreviews"]],
          ],
        ),
      ],
    }),
    role("system:auth-delegator", {
      rules: rules(
        ["create"],
        [
          ["authentication.k8s.io", ["tokenreviews"]],
          ["authorization.k8s.io", ["subjectaccessreviews"]],
        ],
      ),
    }),
    role("system:service-account-issuer-discovery", {
      rules: [{ verbs: ["get"], nonResourceURLs: ["/.well-known/openid-configuration", "/openid/v1/jwks"] }],
    }),
  ];
}

/**
 * For the parts of the system. What upstream's node authorizer narrows to the objects of a node's own pods is granted
 * here by role, for every kubelet alike.
 */
function systemRoles(): readonly ApiObject[] {
  return [
    role("system:node", {
      rules: [
        ...rules(
          ["create"],
          [
            ["authentication.k8s.io", ["tokenreviews"]],
            ["authorization.k8s.io", ["localsubjectaccessreviews", "subjectaccessreviews"]],
            ["", ["pods/eviction", "serviceaccounts/token"]],
          ],
        ),
        ...rules(READ, [
          [
            "",
            [
              "configmaps",
              "endpoints",
              "namespaces",
              "nodes",
              "pods",
              "secrets",
              "serviceaccounts",
              "services",
            ],
          ],
          ["", ["persistentvolumeclaims", "persistentvolumes"]],
          ["discovery.k8s.io", ["endpointslices"]],
          ["networking.k8s.io", ["servicecidrs"]],
          ["node.k8s.io", ["runtimeclasses"]],
        ]),
        ...rules(["create", "delete", "patch", "update"], [["", ["nodes"]]]),
        ...rules(["create", "delete"], [["", ["pods"]]]),
        ...rules(["patch", "update"], [["", ["nodes/status", "pods/status"]]]),
        ...rules(
          ["create", "patch", "update"],
          [
            ["", ["events"]],
            ["events.k8s.io", ["events"]],
          ],
        ),
        ...rules(
          ["create", "delete", "get", "list", "patch", "update", "watch"],
          [["coordination.k8s.io", ["leases"]]],
        ),
      ],
    }),
    role("system:node-proxier", {
      rules: [
        ...rules(READ, [
          ["", ["nodes", "services"]],
          ["discovery.k8s.io", ["endpointslices"]],
          ["networking.k8s.io", ["servicecidrs"]],
        ]),
        ...rules(
          ["create", "patch", "update"],
          [
            ["", ["events"]],
            ["events.k8s.io", ["events"]],
          ],
        ),
      ],
    }),
    // Upstream runs each controller under a role of its own; here they run under one.
    role("system:kube-controller-manager", {
      rules: [
        { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
        { verbs: ["get"], nonResourceURLs: ["*"] },
      ],
    }),
    role("system:kube-scheduler", {
      rules: [
        ...rules(READ, [
          ["", ["namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "services"]],
          ["apps", ["replicasets", "statefulsets"]],
          ["policy", ["poddisruptionbudgets"]],
          ["scheduling.k8s.io", ["priorityclasses"]],
        ]),
        ...rules(["create"], [["", ["bindings", "pods/binding"]]]),
        ...rules(["delete"], [["", ["pods"]]]),
        ...rules(["patch", "update"], [["", ["pods/status"]]]),
        ...rules(
          ["create", "get", "list", "patch", "update", "watch"],
          [["coordination.k8s.io", ["leases"]]],
        ),
        ...rules(
          ["create", "patch", "update"],
          [
            ["", ["events"]],
            ["events.k8s.io", ["events"]],
          ],
        ),
      ],
    }),
    role("system:monitoring", {
      rules: [
        {
          verbs: ["get"],
          nonResourceURLs: [
            "/healthz",
            "/healthz/*",
            "/livez",
            "/livez/*",
            "/metrics",
            "/readyz",
            "/readyz/*",
          ],
        },
      ],
    }),
  ];
}

/** ConfigMap of kube-system with the authorities that the API server trusts for client certificates. */
export const CLIENT_AUTHORITIES = "extension-apiserver-authentication";

/** Lets programs that serve the API or their own metrics read it, so that they can authenticate clients as the API server does. */
function readersOfAuthorities(): readonly ApiObject[] {
  const [apiVersion, namespace] = [`${RBAC}/v1`, "kube-system"];
  const name = `${CLIENT_AUTHORITIES}-reader`;
  const rule = {
    verbs: READ,
    apiGroups: [""],
    resources: ["configmaps"],
    resourceNames: [CLIENT_AUTHORITIES],
  };
  return [
    {
      apiVersion,
      kind: "Role",
      metadata: { ...defaultMetadata(name), namespace },
      rules: [rule],
    },
    {
      apiVersion,
      kind: "RoleBinding",
      metadata: { ...defaultMetadata(`system::${name}`), namespace },
      roleRef: { apiGroup: RBAC, kind: "Role", name },
      subjects: [user("system:kube-controller-manager"), user("system:kube-scheduler")],
    },
  ];
}

/** Roles and their bindings. */
export function bootstrapRoles(): readonly ApiObject[] {
  return [
    ...publicRoles(),
    // Parts come before the roles that are made of them.
    ...userRoles().toReversed(),
    ...systemRoles(),
    bind("cluster-admin", "cluster-admin", group(MASTERS_GROUP)),
    bind("system:discovery", "system:discovery", group(AUTHENTICATED_GROUP)),
    bind("system:basic-user", "system:basic-user", group(AUTHENTICATED_GROUP)),
    bind(
      "system:public-info-viewer",
      "system:public-info-viewer",
      group(AUTHENTICATED_GROUP),
      group(UNAUTHENTICATED_GROUP),
    ),
    bind(
      "system:service-account-issuer-discovery",
      "system:service-account-issuer-discovery",
      group(ALL_SERVICE_ACCOUNTS_GROUP),
    ),
    bind("system:node", "system:node", group("system:nodes")),
    bind("system:node-proxier", "system:node-proxier", user("system:kube-proxy")),
    bind(
      "system:kube-controller-manager",
      "system:kube-controller-manager",
      user("system:kube-controller-manager"),
    ),
    bind("system:kube-scheduler", "system:kube-scheduler", user("system:kube-scheduler")),
    bind("system:monitoring", "system:monitoring", group("system:monitoring")),
    ...readersOfAuthorities(),
  ];
}
