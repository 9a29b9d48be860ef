import type {
  NamedExpression,
  Operation,
  RuleWithOperations,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  Validation,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { INTERNAL_MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SPECIAL_RANGES } from "@fairlead/base/netaddr/special-purpose.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { MAX_ADDRESSES, MAX_ENDPOINTS } from "#domain/slice.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { IDENTITY_DEMANDS, IDENTITY_SLICES } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { ADDRESS_BLOCKS, GATEWAYS, MESH_NETWORKS, VIRTUAL_IPS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { CLUSTER_UPGRADES } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { ANNOTATION_POLICY } from "./annotations.ts";
import { PROFILE_POLICY } from "./profiles.ts";
import { EXPORT_FORMATS, SLICE_FORMATS } from "./formats.ts";
import {
  IN_MAILBOX,
  IN_MAILBOX_OR_VIEW,
  IN_VIEW,
  isLabel,
  referenceRules,
  SAYS_SOMETHING_NEW,
  WHO,
  WHOSE,
} from "./cel.ts";

/**
 * What the hub's API server itself refuses in mailboxes and in the view, before any controller sees it. The controllers
 * check the same again: a policy may be missing, or newer than an object.
 */

/** Most namespaces of one report, and agents of one member. */
const MAX_NAMESPACES = 10_000;
const MAX_AGENTS = 16;
/** The longest lease that a hub accepts (`--member-lease-seconds`). */
const MAX_LEASE_SECONDS = 3600;
/**
 * How far a renewal may be ahead of the one before, or of the Lease's creation, which the server dated. A policy knows no
 * other clock; a cluster's own may be days off, and the cluster away for years.
 */
const MAX_LEASE_JUMP_HOURS = 10 * 365 * 24;

function on(operations: readonly Operation[], kinds: readonly Resource[], part = ""): RuleWithOperations[] {
  return kinds.map((it) => ({
    apiGroups: [it.group],
    apiVersions: ["*"],
    resources: [part === "" ? it.plural : `${it.plural}/${part}`],
    operations: [...operations],
    scope: "Namespaced",
  }));
}

interface Draft {
  readonly name: string;
  readonly rules: readonly RuleWithOperations[];
  readonly only: readonly NamedExpression[];
  readonly variables: readonly NamedExpression[];
  readonly validations: readonly Validation[];
}

function policy({ name, rules, only, variables, validations }: Draft): ValidatingAdmissionPolicy {
  return {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: { resourceRules: rules },
      matchConditions: only,
      variables,
      validations,
    },
  };
}

const WRITES = ["CREATE", "UPDATE"] as const;
const ALL_WRITES = [...WRITES, "DELETE"] as const;

/** Members write only their own objects; the hub writes all others. */
const OF_MEMBERS = [
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  ENDPOINT_SLICE_EXPORTS,
  NAMESPACE_REPORTS,
  GATEWAYS,
  IDENTITY_SLICES,
  IDENTITY_DEMANDS,
  LEASES,
];

const WRITERS: readonly ValidatingAdmissionPolicy[] = [
  policy({
    name: "fairlead-mailbox-owner",
    rules: [
      ...on(ALL_WRITES, OF_MEMBERS),
      ...on(["UPDATE"], [INTERNAL_MEMBER_CLUSTERS, GATEWAYS, CLUSTER_UPGRADES, WORKS], "status"),
    ],
    only: [IN_MAILBOX],
    variables: WHO,
    validations: [
      {
        expression: "variables.isOwner || variables.isAdministrator || variables.isController",
        messageExpression:
          '"only member " + variables.member + ", the hub, and users with verb administer on mailboxes.fairlead.dev may write here"',
        reason: "Forbidden",
      },
    ],
  }),
  policy({
    name: "fairlead-hub-only",
    rules: [
      ...on(ALL_WRITES, [
        IMPORTED_SERVICES,
        INTERNAL_MEMBER_CLUSTERS,
        MESH_NETWORKS,
        ADDRESS_BLOCKS,
        VIRTUAL_IPS,
        CLUSTER_UPGRADES,
      ]),
      ...on(["CREATE", "DELETE"], [ENDPOINT_SLICE_IMPORTS, WORKS]),
      ...on(["UPDATE"], [INTERNAL_SERVICE_EXPORTS, INTERNAL_SERVICE_IMPORTS, IDENTITY_DEMANDS], "status"),
    ],
    only: [IN_MAILBOX_OR_VIEW],
    variables: WHO,
    validations: [
      {
        expression: "variables.isAdministrator || variables.isController",
        message:
          "only the hub, and users with verb administer on mailboxes.fairlead.dev, may write this object",
        reason: "Forbidden",
      },
    ],
  }),
  policy({
    name: "fairlead-view",
    rules: [...on(ALL_WRITES, [GATEWAYS, IDENTITY_SLICES]), ...on(["UPDATE"], [GATEWAYS], "status")],
    only: [IN_VIEW],
    variables: WHO,
    validations: [
      {
        expression: "variables.isAdministrator || variables.isController",
        message: "only the hub, and users with verb administer on mailboxes.fairlead.dev, may write here",
        reason: "Forbidden",
      },
    ],
  }),
  // Members put finalizers on Works; legacy agents also keep their measurements on their copies.
  policy({
    name: "fairlead-copies",
    rules: on(["UPDATE"], [ENDPOINT_SLICE_IMPORTS, WORKS]),
    only: [IN_MAILBOX_OR_VIEW],
    variables: WHO,
    validations: [
      {
        expression:
          "variables.isAdministrator || variables.isController || (variables.isOwner && object.?spec == oldObject.?spec)",
        message: "only the hub may change spec; the member of this namespace may change metadata",
        reason: "Forbidden",
      },
    ],
  }),
];

const EXPORT_REFERENCE = "object.spec.serviceReference";
const SLICE_REFERENCE = "object.spec.endpointSliceReference";
const OWNER = "object.spec.ownerServiceReference";
const IMPORT_REFERENCE = "object.spec.serviceImportReference";

/** As `isSpecialPurpose`; `isIP` refuses IPv4-mapped addresses. */
function specialRanges(family: "IPv4" | "IPv6"): string {
  return `[${SPECIAL_RANGES[family].map((it) => `cidr(${JSON.stringify(it)})`).join(", ")}]`;
}

/** A DNS subdomain, a slash and a name (Kubernetes documentation, "Labels and Selectors"). */
const MAX_LABEL_KEY = 253 + 1 + 63;

function shortKeys(of: string): string {
  return `${of}.?labels.orValue({}).all(key, key.size() <= ${MAX_LABEL_KEY})`;
}

const CONTENTS: readonly ValidatingAdmissionPolicy[] = [
  policy({
    name: "fairlead-service-exports",
    rules: on(WRITES, [INTERNAL_SERVICE_EXPORTS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW, { name: "has-spec", expression: "has(object.spec)" }],
    variables: WHOSE,
    validations: [
      ...referenceRules(EXPORT_REFERENCE),
      {
        expression: isLabel(`${EXPORT_REFERENCE}.name`),
        message: "the name of the Service must be a DNS label",
      },
      ...EXPORT_FORMATS,
    ],
  }),
  policy({
    name: "fairlead-service-imports",
    rules: on(WRITES, [INTERNAL_SERVICE_IMPORTS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: WHOSE,
    validations: [
      ...referenceRules(IMPORT_REFERENCE),
      {
        expression: isLabel(`${IMPORT_REFERENCE}.name`),
        message: "the name of the ServiceImport must be a DNS label",
      },
    ],
  }),
  policy({
    name: "fairlead-endpoints",
    rules: on(WRITES, [ENDPOINT_SLICE_EXPORTS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: [
      ...WHOSE,
      {
        name: "family",
        expression: 'has(object.spec.addressType) && object.spec.addressType == "IPv6" ? 6 : 4',
      },
      {
        name: "special",
        expression: `variables.family == 6 ? ${specialRanges("IPv6")} : ${specialRanges("IPv4")}`,
      },
    ],
    validations: [
      ...referenceRules(SLICE_REFERENCE),
      {
        expression: `${OWNER}.namespace == ${SLICE_REFERENCE}.namespace && ${OWNER}.namespacedName == ${OWNER}.namespace + "/" + ${OWNER}.name`,
        message:
          "the slice and its Service must be in the same namespace, and namespacedName must be namespace/name",
      },
      {
        expression: `object.spec.endpoints.size() <= ${MAX_ENDPOINTS} && object.spec.endpoints.all(e, e.addresses.size() > 0 && e.addresses.size() <= ${MAX_ADDRESSES})`,
        message: `spec.endpoints: at most ${MAX_ENDPOINTS} are allowed, each with 1 to ${MAX_ADDRESSES} addresses`,
      },
      ...SLICE_FORMATS,
      {
        expression:
          "object.spec.endpoints.all(e, e.addresses.all(a, isIP(a)) && e.addresses.map(a, ip(a)).all(a, a.family() == variables.family && !variables.special.exists(it, it.containsIP(a))))",
        message:
          "spec.endpoints[].addresses must be of the slice's family, and not in a special-purpose range (unspecified, loopback, link-local, multicast, reserved, documentation, translation)",
      },
    ],
  }),
  policy({
    name: "fairlead-reports",
    rules: on(WRITES, [NAMESPACE_REPORTS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: WHOSE,
    validations: [
      {
        expression: "object.metadata.name == variables.member",
        message: "metadata.name must be the name of the member",
      },
      {
        expression: `object.spec.namespaces.size() <= ${MAX_NAMESPACES}`,
        message: `spec.namespaces: at most ${MAX_NAMESPACES} are allowed`,
      },
    ],
  }),
  policy({
    name: "fairlead-gateways",
    rules: on(WRITES, [GATEWAYS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: WHOSE,
    validations: [
      {
        expression: "object.spec.cluster == variables.member",
        messageExpression: '"spec.cluster must be " + variables.member + ", the member of this namespace"',
      },
      {
        expression: 'object.metadata.name == object.spec.cluster + "-" + string(object.spec.ordinal)',
        message: "metadata.name must be the name of the member, a dash, and spec.ordinal",
      },
    ],
  }),
  policy({
    name: "fairlead-identities",
    rules: on(WRITES, [IDENTITY_SLICES]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: WHOSE,
    validations: [
      {
        expression: "object.spec.cluster == variables.member",
        messageExpression: '"spec.cluster must be " + variables.member + ", the member of this namespace"',
      },
      {
        expression: `${shortKeys("object.spec")} && object.spec.?pods.orValue([]).all(it, ${shortKeys("it")}) && object.spec.?nodes.orValue([]).all(it, ${shortKeys("it")})`,
        message: `keys of labels must be at most ${MAX_LABEL_KEY} characters long`,
      },
    ],
  }),
  policy({
    name: "fairlead-identity-demands",
    rules: on(WRITES, [IDENTITY_DEMANDS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: WHOSE,
    validations: [
      {
        expression: "object.metadata.name == variables.member",
        message: "metadata.name must be the name of the member",
      },
    ],
  }),
  policy({
    name: "fairlead-gateway-reports",
    rules: on(["UPDATE"], [GATEWAYS], "status"),
    only: [IN_MAILBOX],
    variables: WHO,
    validations: [
      {
        expression:
          "!variables.isOwner || object.?status.?conditions.orValue([]) == oldObject.?status.?conditions.orValue([])",
        message: "status.conditions are written by the hub; a member writes status.paths",
      },
    ],
  }),
  policy({
    name: "fairlead-heartbeats",
    rules: [...on(WRITES, [LEASES]), ...on(["UPDATE"], [INTERNAL_MEMBER_CLUSTERS], "status")],
    only: [IN_MAILBOX, { name: "lives", expression: "!has(object.metadata.deletionTimestamp)" }],
    variables: [
      ...WHOSE,
      {
        name: "before",
        expression:
          'oldObject != null && object.kind == "Lease" && has(oldObject.spec) && has(oldObject.spec.renewTime) && timestamp(oldObject.spec.renewTime) > timestamp(object.metadata.creationTimestamp) ? timestamp(oldObject.spec.renewTime) : timestamp(object.metadata.creationTimestamp)',
      },
    ],
    validations: [
      {
        expression: "object.metadata.name == variables.member",
        messageExpression: '"metadata.name must be " + variables.member + ", the member of this namespace"',
      },
      {
        expression:
          'object.kind != "Lease" || !has(object.spec) || !has(object.spec.holderIdentity) || object.spec.holderIdentity == variables.member',
        message: "spec.holderIdentity must be the name of the member",
      },
      {
        expression: `object.kind != "Lease" || !has(object.spec) || !has(object.spec.leaseDurationSeconds) || (object.spec.leaseDurationSeconds > 0 && object.spec.leaseDurationSeconds <= ${MAX_LEASE_SECONDS})`,
        message: `spec.leaseDurationSeconds must be 1 to ${MAX_LEASE_SECONDS}`,
      },
      {
        expression: `object.kind != "Lease" || !has(object.spec) || !has(object.spec.renewTime) || timestamp(object.spec.renewTime) <= variables.before + duration("${MAX_LEASE_JUMP_HOURS}h")`,
        message: "spec.renewTime must be at most ten years after the previous one",
      },
      {
        expression: `object.kind == "Lease" || !has(object.status) || !has(object.status.agentStatus) || object.status.agentStatus.size() <= ${MAX_AGENTS}`,
        message: `status.agentStatus: at most ${MAX_AGENTS} are allowed`,
      },
    ],
  }),
];

export const MAILBOX_POLICIES: readonly ValidatingAdmissionPolicy[] = [
  ...WRITERS,
  ...CONTENTS,
  PROFILE_POLICY,
  ANNOTATION_POLICY,
];

export const MAILBOX_POLICY_BINDINGS: readonly ValidatingAdmissionPolicyBinding[] = MAILBOX_POLICIES.map(
  (it) => ({
    metadata: { name: it.metadata.name },
    spec: { policyName: it.metadata.name, validationActions: [it === ANNOTATION_POLICY ? "Warn" : "Deny"] },
  }),
);
