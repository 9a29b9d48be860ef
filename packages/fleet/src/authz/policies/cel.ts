import type { NamedExpression, Validation } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import {
  FLEET_SYSTEM_NAMESPACE,
  MAILBOX_PREFIX,
  VIEW_PREFIX,
} from "#api/networking.fleet.azure.com/names.ts";
import { MEMBER_GROUP_ANNOTATION, MEMBER_USER_ANNOTATION } from "#api/fairlead.dev/names.ts";

/** Parts of which the policies are made: CEL texts, from the constants by which the controllers decide. */

export function quoted(text: string): string {
  return JSON.stringify(text);
}

/** The member whose mailbox the request is for. */
const MEMBER: NamedExpression = {
  name: "member",
  expression: `request.namespace.substring(${MAILBOX_PREFIX.length})`,
};

export const IN_MAILBOX: NamedExpression = {
  name: "in-mailbox",
  expression: `request.namespace.startsWith(${quoted(MAILBOX_PREFIX)})`,
};

export const IN_VIEW: NamedExpression = {
  name: "in-view",
  expression: `request.namespace.startsWith(${quoted(VIEW_PREFIX)})`,
};

export const IN_MAILBOX_OR_VIEW: NamedExpression = {
  name: "in-mailbox-or-view",
  expression: `${IN_MAILBOX.expression} || ${IN_VIEW.expression}`,
};

/**
 * An admitted object may be finished and deleted even if it would be refused now: finalizers must be removable, and an
 * unchanged spec is not validated again.
 */
export const SAYS_SOMETHING_NEW: NamedExpression = {
  name: "says-something-new",
  expression:
    "!has(object.metadata.deletionTimestamp) && (oldObject == null || !has(oldObject.spec) || !has(object.spec) || object.spec != oldObject.spec)",
};

/** The right to write into every member namespace: a verb of Fairlead's that RBAC grants like any other. system:masters has it. */
export const ADMINISTER = { group: "fairlead.dev", plural: "mailboxes", verb: "administer" } as const;

const IS_ADMINISTRATOR: NamedExpression = {
  name: "isAdministrator",
  expression:
    `authorizer.group(${quoted(ADMINISTER.group)}).resource(${quoted(ADMINISTER.plural)})` +
    `.namespace(request.namespace).check(${quoted(ADMINISTER.verb)}).allowed()`,
};

/** Ends namespaces and collects what has no owner. */
const IS_CONTROLLER: NamedExpression = {
  name: "isController",
  expression:
    'request.userInfo.username == "system:kube-controller-manager" || request.userInfo.username.startsWith("system:serviceaccount:kube-system:")',
};

function annotation(name: string): string {
  return `namespaceObject.metadata.?annotations[?${quoted(name)}].orValue("")`;
}

/** As the hub noted it from the MemberCluster, and the identity that `join` makes, of whatever generation. */
const IS_OWNER: NamedExpression = {
  name: "isOwner",
  expression:
    `request.userInfo.username == "fleet:member:" + variables.member || ` +
    `request.userInfo.username.startsWith("fleet:member:" + variables.member + ":") || ` +
    `request.userInfo.username == ${annotation(MEMBER_USER_ANNOTATION)} || ` +
    `(has(request.userInfo.groups) && ${annotation(MEMBER_GROUP_ANNOTATION)} in request.userInfo.groups)`,
};

export const WHO: readonly NamedExpression[] = [MEMBER, IS_ADMINISTRATOR, IS_CONTROLLER, IS_OWNER];
export const WHOSE: readonly NamedExpression[] = [MEMBER];

/** RFC 1123 labels, as `isClusterName` takes them. */
const LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
export function isLabel(text: string): string {
  return `${text}.size() <= 63 && ${text}.matches(${quoted(LABEL)})`;
}

/** As `isReservedNamespace`. */
function isReserved(text: string): string {
  return (
    `(${text} == ${quoted(FLEET_SYSTEM_NAMESPACE)} || ${text}.startsWith(${quoted(MAILBOX_PREFIX)}) || ` +
    `${text}.startsWith(${quoted(VIEW_PREFIX)}))`
  );
}

/** The rules of every reference to an object of a member. */
export function referenceRules(path: string): Validation[] {
  const at = (field: string): string => `${path}.${field}`;
  return [
    {
      expression: `${at("clusterId")} == variables.member`,
      messageExpression: `"clusterId must be " + variables.member + ", the member of this namespace"`,
    },
    {
      expression: `${isLabel(at("namespace"))} && !${isReserved(at("namespace"))}`,
      message:
        "namespace must be a valid, non-reserved namespace name; services of other namespaces are not exported or imported",
    },
    {
      expression: `${at("namespacedName")} == ${at("namespace")} + "/" + ${at("name")}`,
      message: "namespacedName must be namespace/name",
    },
  ];
}
