import type {
  NamedExpression,
  Operation,
  RuleWithOperations,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  Validation,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { FLEET_RESOURCE_LABEL, MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { MEMBERS_GROUP } from "#api/fairlead.dev/identity.ts";
import { MAILBOX_PREFIX, VIEW_PREFIX } from "#api/networking.fleet.azure.com/names.ts";
import { ADMINISTER, quoted, WHO } from "./cel.ts";

/**
 * What the hub's API server refuses in the hub as a whole, whatever RBAC grants: the rules of KubeFleet's guard rail and of its
 * webhooks for pods that a request alone decides. They are fail-closed: no program has to run for them.
 */

/** Groups whose members may do what the guard rails keep from all others. Source: KubeFleet, pkg/webhook/validation. */
const GROUPS = ["system:masters", "kubeadm:cluster-admins", "system:nodes"];
const USERS = ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager", "aks-support"];

const groups = "request.userInfo.?groups.orValue([])";
/** Accounts in member namespaces are members', which the guard rails hold for, too. */
const IS_ACCOUNT = `("system:serviceaccounts" in ${groups} && !request.userInfo.username.startsWith(${quoted(`system:serviceaccount:${MAILBOX_PREFIX}`)}))`;
const ADMINISTERS = `authorizer.group(${quoted(ADMINISTER.group)}).resource(${quoted(ADMINISTER.plural)}).check(${quoted(ADMINISTER.verb)}).allowed()`;

/** Everybody but administrators, the hub, the control plane, nodes and ServiceAccounts. */
const BY_OTHERS: NamedExpression = {
  name: "by-others",
  expression: `!(request.userInfo.username in ${JSON.stringify(USERS)}) && !${groups}.exists(it, it in ${JSON.stringify(GROUPS)}) && !${IS_ACCOUNT} && !${ADMINISTERS}`,
};
const MAY = `administrators, and users with verb ${ADMINISTER.verb} on ${ADMINISTER.plural}.${ADMINISTER.group} in all namespaces,`;

function isReservedName(text: string): string {
  return `(${text}.startsWith("fleet-") || ${text}.startsWith("kube-"))`;
}

interface Rule {
  readonly groups: readonly string[];
  readonly resources: readonly string[];
  readonly operations: readonly Operation[];
  readonly scope: "Cluster" | "Namespaced" | "*";
}
function on({ groups: apiGroups, resources, operations, scope }: Rule): RuleWithOperations {
  return { apiGroups, apiVersions: ["*"], resources, operations, scope };
}

const WRITES: readonly Operation[] = ["CREATE", "UPDATE"];
const ALL_WRITES: readonly Operation[] = [...WRITES, "DELETE"];

interface Draft {
  readonly name: string;
  readonly rules: readonly RuleWithOperations[];
  readonly only?: readonly NamedExpression[];
  readonly variables?: readonly NamedExpression[];
  readonly validations: readonly Validation[];
}
function policy({ name, rules, only = [], variables = [], validations }: Draft): ValidatingAdmissionPolicy {
  return {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: { resourceRules: rules },
      ...(only.length === 0 ? {} : { matchConditions: only }),
      ...(variables.length === 0 ? {} : { variables }),
      validations: validations.map((it) => ({ reason: "Forbidden", ...it })),
    },
  };
}

/** KubeFleet's: the hub holds workloads for members and runs none. Not installed where the hub's cluster runs others. */
export const WORKLOAD_POLICY = policy({
  name: "fairlead-workloads",
  rules: [
    on({ groups: [""], resources: ["pods"], operations: ["CREATE"], scope: "Namespaced" }),
    on({ groups: ["apps"], resources: ["replicasets"], operations: ["CREATE"], scope: "Namespaced" }),
  ],
  validations: [
    {
      expression: isReservedName("request.namespace"),
      messageExpression:
        '"the hub of a fleet runs no workloads: " + request.resource.resource + " may be created only in namespaces fleet-* and kube-*; place the object that makes them on a member"',
    },
  ],
});

const NAMED = `(object == null ? oldObject : object).metadata`;
const isFleetResource = (of: string): string =>
  `(${of} != null && ${of}.metadata.?labels[?${quoted(FLEET_RESOURCE_LABEL)}].orValue("") == "true")`;

/** Groups whose definitions and objects the fleet depends on. */
const FLEET_GROUPS = [
  "networking.fleet.azure.com",
  "cluster.kubernetes-fleet.io",
  "placement.kubernetes-fleet.io",
  "multicluster.x-k8s.io",
  "fairlead.dev",
];
/** Groups of which objects in reserved namespaces may not be written; others may not be deleted either. */
const GUARDED_GROUPS = ["", "apps", "batch", "rbac.authorization.k8s.io", ...FLEET_GROUPS];
const SYSTEM_NAMESPACES = ["fleet-system", "kube-system", "kube-public", "kube-node-lease"];

/** In member namespaces, other policies decide about kinds of networking, by the member whose namespace it is. */
const IS_GUARDED_ELSEWHERE = `(request.namespace.startsWith(${quoted(MAILBOX_PREFIX)}) || request.namespace.startsWith(${quoted(VIEW_PREFIX)})) && request.resource.group in ${JSON.stringify(["networking.fleet.azure.com", "fairlead.dev", "cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io"])}`;

const RESERVED: readonly ValidatingAdmissionPolicy[] = [
  policy({
    name: "fairlead-reserved-namespaces",
    rules: [
      on({
        groups: [NAMESPACES.group],
        resources: [NAMESPACES.plural, `${NAMESPACES.plural}/finalize`, `${NAMESPACES.plural}/status`],
        operations: ALL_WRITES,
        scope: "Cluster",
      }),
    ],
    only: [BY_OTHERS],
    variables: [{ name: "name", expression: `${NAMED}.?name.orValue(${NAMED}.?generateName.orValue(""))` }],
    validations: [
      {
        expression: `!${isReservedName("variables.name")} && !${isFleetResource("object")} && !${isFleetResource("oldObject")}`,
        messageExpression: `"namespace " + variables.name + " is reserved: only ${MAY} may write namespaces fleet-*, kube-* and those with label ${FLEET_RESOURCE_LABEL}"`,
      },
    ],
  }),
  policy({
    name: "fairlead-fleet-crds",
    rules: [
      on({
        groups: [CUSTOM_RESOURCE_DEFINITIONS.group],
        resources: [CUSTOM_RESOURCE_DEFINITIONS.plural],
        operations: ALL_WRITES,
        scope: "Cluster",
      }),
    ],
    only: [BY_OTHERS],
    variables: [{ name: "group", expression: "(object == null ? oldObject : object).spec.group" }],
    validations: [
      {
        expression: `!(variables.group in ${JSON.stringify(FLEET_GROUPS)})`,
        messageExpression: `"spec.group " + variables.group + " is the fleet's: only ${MAY} may write its definitions"`,
      },
    ],
  }),
  policy({
    name: "fairlead-reserved-objects",
    rules: [
      on({ groups: ["*"], resources: ["*"], operations: ["DELETE"], scope: "Namespaced" }),
      on({
        groups: GUARDED_GROUPS,
        resources: ["*", "serviceaccounts/token"],
        operations: WRITES,
        scope: "Namespaced",
      }),
    ],
    only: [
      BY_OTHERS,
      {
        // Relays outside of the hub's pods write their own Relay, as RBAC permits it.
        name: "not-leases-events-or-relays",
        expression:
          '!(request.resource.resource in ["leases", "events"]) && !(request.resource.group == "fairlead.dev" && request.resource.resource == "relays")',
      },
      { name: "not-guarded-elsewhere", expression: `!(${IS_GUARDED_ELSEWHERE})` },
    ],
    variables: [
      ...WHO,
      {
        name: "isReserved",
        expression: `request.namespace in ${JSON.stringify(SYSTEM_NAMESPACES)} || request.namespace.startsWith(${quoted(MAILBOX_PREFIX)}) || ${isFleetResource("namespaceObject")}`,
      },
    ],
    validations: [
      {
        expression: `!variables.isReserved || (request.namespace.startsWith(${quoted(MAILBOX_PREFIX)}) && variables.isOwner)`,
        messageExpression: `"namespace " + request.namespace + " is the fleet's: only ${MAY} may write " + request.resource.resource + " there"`,
      },
    ],
  }),
];

const PRODUCT = "fleet.azure.com";
const marks = (of: string): string =>
  `(${of} == null ? [] : ${of}.metadata.?annotations.orValue({}).filter(k, k.startsWith(${quoted(PRODUCT)})))`;
const mark = (of: string): string => `${of}.metadata.annotations[k]`;

const MEMBERS: readonly ValidatingAdmissionPolicy[] = [
  policy({
    name: "fairlead-member-clusters",
    rules: [
      on({
        groups: [MEMBER_CLUSTERS.group],
        resources: [MEMBER_CLUSTERS.plural, `${MEMBER_CLUSTERS.plural}/status`],
        operations: ALL_WRITES,
        scope: "Cluster",
      }),
    ],
    only: [BY_OTHERS],
    variables: [
      { name: "now", expression: marks("object") },
      { name: "before", expression: marks("oldObject") },
      { name: "isProduct", expression: "variables.now.size() > 0 || variables.before.size() > 0" },
    ],
    validations: [
      {
        expression: 'request.?subResource.orValue("") != "status"',
        message: `status of a MemberCluster is the hub's: only ${MAY} may write it`,
      },
      {
        expression: `request.operation == "DELETE" || (variables.now.all(k, k in variables.before && ${mark("object")} == ${mark("oldObject")}) && variables.before.all(k, k in variables.now))`,
        message: `metadata.annotations: only ${MAY} may add, change or remove annotations ${PRODUCT}…`,
      },
      {
        expression:
          '!variables.isProduct || (request.operation != "DELETE" && (object == null || oldObject == null || (object.spec.identity == oldObject.spec.identity && object.spec.?heartbeatPeriodSeconds == oldObject.spec.?heartbeatPeriodSeconds && object.spec.?deleteOptions == oldObject.spec.?deleteOptions)))',
        message: `spec of a MemberCluster with annotations ${PRODUCT}… may be changed only in taints, and the MemberCluster not be deleted, except by ${MAY.slice(0, -1)}`,
      },
    ],
  }),
  // Certificates of members name it; accounts in member namespaces are in it by their user name.
  policy({
    name: "fairlead-members-bounded",
    rules: [on({ groups: ["*"], resources: ["*/*"], operations: ALL_WRITES, scope: "*" })],
    only: [
      {
        name: "by-members",
        expression: `request.userInfo.username.startsWith("fleet:member:") || ${quoted(MEMBERS_GROUP)} in ${groups} || request.userInfo.username.startsWith(${quoted(`system:serviceaccount:${MAILBOX_PREFIX}`)})`,
      },
      {
        name: "not-about-itself",
        expression:
          '!(request.resource.group in ["authentication.k8s.io", "authorization.k8s.io"]) && !(request.resource.group == "certificates.k8s.io" && request.operation == "CREATE")',
      },
    ],
    variables: [
      {
        name: "member",
        expression: `request.userInfo.username.startsWith("fleet:member:") ? request.userInfo.username.split(":")[2] : request.userInfo.username.startsWith(${quoted(`system:serviceaccount:${MAILBOX_PREFIX}`)}) ? request.userInfo.username.split(":")[2].substring(${MAILBOX_PREFIX.length}) : ""`,
      },
    ],
    validations: [
      {
        expression: `request.?namespace.orValue("") == ${quoted(MAILBOX_PREFIX)} + variables.member`,
        messageExpression: `"member " + variables.member + " may write only in its own namespace ${MAILBOX_PREFIX}" + variables.member`,
      },
    ],
  }),
];

/** KubeFleet's deny-modify-member-cluster-labels: without a binding, nothing happens. */
export const MEMBER_LABELS_POLICY = policy({
  name: "fairlead-member-labels",
  rules: [
    on({
      groups: [MEMBER_CLUSTERS.group],
      resources: [MEMBER_CLUSTERS.plural],
      operations: ["UPDATE"],
      scope: "Cluster",
    }),
  ],
  only: [
    {
      name: "by-others",
      expression: `!("system:masters" in ${groups}) && !${ADMINISTERS}`,
    },
  ],
  variables: ["object", "oldObject"].map((it) => ({
    name: it === "object" ? "now" : "before",
    expression: `${it}.metadata.?labels.orValue({}).filter(k, !k.startsWith("kubernetes-fleet.io/"))`,
  })),
  validations: [
    {
      expression:
        "variables.now.all(k, k in variables.before && object.metadata.labels[k] == oldObject.metadata.labels[k]) && variables.before.all(k, k in variables.now)",
      message:
        "metadata.labels: only labels kubernetes-fleet.io/… may be changed here; change others where the member is managed",
    },
  ],
});

/** Those that hold in every hub. */
export const GUARD_RAILS: readonly ValidatingAdmissionPolicy[] = [...RESERVED, ...MEMBERS];

export function bindingOf({
  metadata: { name },
}: ValidatingAdmissionPolicy): ValidatingAdmissionPolicyBinding {
  return { metadata: { name }, spec: { policyName: name, validationActions: ["Deny"] } };
}
