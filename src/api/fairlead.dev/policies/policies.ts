import type {
  NamedExpression,
  Operation,
  RuleWithOperations,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  Validation,
} from "../../admissionregistration/v1/types.ts";
import { INTERNAL_MEMBER_CLUSTERS } from "../../cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "../../coordination/v1/types.ts";
import type { Resource } from "../../meta/resource.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "../../networking.fleet.azure.com/v1alpha1/types.ts";
import { MAX_ADDRESSES, MAX_ENDPOINTS, MAX_PORTS } from "../model/slice.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "../v1alpha1/types.ts";
import {
  IN_MAILBOX,
  IN_MAILBOX_OR_VIEW,
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

/** Members write what is theirs to say; all else is the hub's. */
const OF_MEMBERS = [
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  ENDPOINT_SLICE_EXPORTS,
  NAMESPACE_REPORTS,
  LEASES,
];

const WRITERS: readonly ValidatingAdmissionPolicy[] = [
  policy({
    name: "fairlead-mailbox-owner",
    rules: [...on(ALL_WRITES, OF_MEMBERS), ...on(["UPDATE"], [INTERNAL_MEMBER_CLUSTERS], "status")],
    only: [IN_MAILBOX],
    variables: WHO,
    validations: [
      {
        expression: "variables.isOwner || variables.isAdministrator || variables.isController",
        messageExpression:
          '"only member " + variables.member + ", the hub, and those who may administer mailboxes.fairlead.dev write here"',
        reason: "Forbidden",
      },
    ],
  }),
  policy({
    name: "fairlead-hub-only",
    rules: [
      ...on(ALL_WRITES, [IMPORTED_SERVICES, INTERNAL_MEMBER_CLUSTERS]),
      ...on(["CREATE", "DELETE"], [ENDPOINT_SLICE_IMPORTS]),
      ...on(["UPDATE"], [INTERNAL_SERVICE_EXPORTS, INTERNAL_SERVICE_IMPORTS], "status"),
    ],
    only: [IN_MAILBOX_OR_VIEW],
    variables: WHO,
    validations: [
      {
        expression: "variables.isAdministrator || variables.isController",
        message: "only the hub, and those who may administer mailboxes.fairlead.dev, write this",
        reason: "Forbidden",
      },
    ],
  }),
  // Agents of other origin keep a finalizer and what they measured on their copies.
  policy({
    name: "fairlead-copies",
    rules: on(["UPDATE"], [ENDPOINT_SLICE_IMPORTS]),
    only: [IN_MAILBOX_OR_VIEW],
    variables: WHO,
    validations: [
      {
        expression:
          "variables.isAdministrator || variables.isController || (variables.isOwner && object.spec == oldObject.spec)",
        message: "only the hub changes what a copy says; its reader may change finalizers and annotations",
        reason: "Forbidden",
      },
    ],
  }),
];

const EXPORT_REFERENCE = "object.spec.serviceReference";
const SLICE_REFERENCE = "object.spec.endpointSliceReference";
const OWNER = "object.spec.ownerServiceReference";
const IMPORT_REFERENCE = "object.spec.serviceImportReference";

/** Source of the unusable ranges: `isEndpointAddress`. An IPv4 address in NAT64's prefix counts as what it stands for. */
const UNUSABLE_NAT64 = [
  "64:ff9b::/128",
  "64:ff9b::7f00:0/104",
  "64:ff9b::a9fe:0/112",
  "64:ff9b::e000:0/100",
  "64:ff9b::ffff:ffff/128",
];

const CONTENTS: readonly ValidatingAdmissionPolicy[] = [
  policy({
    name: "fairlead-service-exports",
    rules: on(WRITES, [INTERNAL_SERVICE_EXPORTS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW, { name: "has-spec", expression: "has(object.spec)" }],
    variables: WHOSE,
    validations: [
      ...referenceRules(EXPORT_REFERENCE),
      { expression: isLabel(`${EXPORT_REFERENCE}.name`), message: "the Service has no valid name" },
      {
        expression: `object.spec.ports.size() <= ${MAX_PORTS}`,
        message: `a service has at most ${MAX_PORTS} ports`,
      },
      {
        expression: "!has(object.spec.weight) || (object.spec.weight >= 0 && object.spec.weight <= 1000)",
        message: "weight must be 0 to 1000",
      },
    ],
  }),
  policy({
    name: "fairlead-service-imports",
    rules: on(WRITES, [INTERNAL_SERVICE_IMPORTS]),
    only: [IN_MAILBOX, SAYS_SOMETHING_NEW],
    variables: WHOSE,
    validations: [
      ...referenceRules(IMPORT_REFERENCE),
      { expression: isLabel(`${IMPORT_REFERENCE}.name`), message: "the ServiceImport has no valid name" },
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
    ],
    validations: [
      ...referenceRules(SLICE_REFERENCE),
      {
        expression: `${OWNER}.namespace == ${SLICE_REFERENCE}.namespace && ${OWNER}.namespacedName == ${OWNER}.namespace + "/" + ${OWNER}.name`,
        message: "slice and Service must be in one namespace, and namespacedName be namespace/name",
      },
      {
        expression: `object.spec.endpoints.size() <= ${MAX_ENDPOINTS} && object.spec.endpoints.all(e, e.addresses.size() > 0 && e.addresses.size() <= ${MAX_ADDRESSES})`,
        message: `a slice has at most ${MAX_ENDPOINTS} endpoints, each with 1 to ${MAX_ADDRESSES} addresses`,
      },
      {
        expression: `!has(object.spec.ports) || object.spec.ports.size() <= ${MAX_PORTS}`,
        message: `a slice has at most ${MAX_PORTS} ports`,
      },
      {
        expression:
          "object.spec.endpoints.all(e, e.addresses.all(a, isIP(a) && ip(a).family() == variables.family && ip(a).isGlobalUnicast()))",
        message:
          "addresses must be of the slice's family, and neither unspecified, loopback, link-local, multicast nor broadcast",
      },
      {
        expression: `variables.family == 4 || object.spec.endpoints.all(e, e.addresses.all(a, !a.startsWith("64:") || ![${UNUSABLE_NAT64.map((it) => JSON.stringify(it)).join(", ")}].exists(c, cidr(c).containsIP(a))))`,
        message: "an address stands for an IPv4 address that cannot be an endpoint",
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
        message: "a report has the name of its member",
      },
      {
        expression: `object.spec.namespaces.size() <= ${MAX_NAMESPACES}`,
        message: `a report names at most ${MAX_NAMESPACES} namespaces`,
      },
    ],
  }),
  policy({
    name: "fairlead-heartbeats",
    rules: [...on(WRITES, [LEASES]), ...on(["UPDATE"], [INTERNAL_MEMBER_CLUSTERS], "status")],
    only: [IN_MAILBOX, { name: "lives", expression: "!has(object.metadata.deletionTimestamp)" }],
    variables: WHOSE,
    validations: [
      {
        expression: "object.metadata.name == variables.member",
        messageExpression: '"its name must be " + variables.member + ", whose mailbox this is"',
      },
      {
        expression:
          'object.kind != "Lease" || !has(object.spec) || !has(object.spec.holderIdentity) || object.spec.holderIdentity == variables.member',
        message: "a member renews its own lease only",
      },
      {
        expression: `object.kind == "Lease" || !has(object.status) || !has(object.status.agentStatus) || object.status.agentStatus.size() <= ${MAX_AGENTS}`,
        message: `at most ${MAX_AGENTS} agents report for a member`,
      },
    ],
  }),
];

export const MAILBOX_POLICIES: readonly ValidatingAdmissionPolicy[] = [...WRITERS, ...CONTENTS];

export const MAILBOX_POLICY_BINDINGS: readonly ValidatingAdmissionPolicyBinding[] = MAILBOX_POLICIES.map(
  ({ metadata: { name } }) => ({
    metadata: { name },
    spec: { policyName: name, validationActions: ["Deny"] },
  }),
);
