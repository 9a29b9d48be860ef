import { AUTHENTICATED_GROUP, type Attributes, type Authorizer, type Decision } from "#values/authorizer.ts";
import type { UserInfo } from "#values/object.ts";
import { checkDnsLabel, checkSubdomain } from "#values/names.ts";
import type { Declaration } from "../function.ts";
import { type CelType, structOf } from "../type.ts";
import { CelError, type CelValue, Opaque } from "../value.ts";

/** Questions about who may do what. Source: k8s.io/apiserver, pkg/cel/library/authz.go. */

const PREFIX = "kubernetes.authorization";
export const AUTHORIZER: CelType = structOf(`${PREFIX}.Authorizer`);
const PATH_CHECK = structOf(`${PREFIX}.PathCheck`);
const GROUP_CHECK = structOf(`${PREFIX}.GroupCheck`);
export const RESOURCE_CHECK: CelType = structOf(`${PREFIX}.ResourceCheck`);
const DECISION = structOf(`${PREFIX}.Decision`);

abstract class Receiver extends Opaque {
  isSame(other: CelValue): boolean {
    return this === other;
  }
}

/** The value of `authorizer`. */
export class AuthorizerValue extends Receiver {
  readonly celType: CelType = AUTHORIZER;
  readonly user: UserInfo;
  readonly authorizer: Authorizer;
  constructor(user: UserInfo, authorizer: Authorizer) {
    super();
    this.user = user;
    this.authorizer = authorizer;
  }
}

class PathCheck extends Receiver {
  readonly celType: CelType = PATH_CHECK;
  readonly of: AuthorizerValue;
  readonly path: string;
  constructor(of: AuthorizerValue, path: string) {
    super();
    this.of = of;
    this.path = path;
  }
}

class GroupCheck extends Receiver {
  readonly celType: CelType = GROUP_CHECK;
  readonly of: AuthorizerValue;
  readonly group: string;
  constructor(of: AuthorizerValue, group: string) {
    super();
    this.of = of;
    this.group = group;
  }
}

export interface CheckedResource {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
}

/** The value of `authorizer.requestResource`. */
export class ResourceCheck extends Receiver {
  readonly celType: CelType = RESOURCE_CHECK;
  readonly of: AuthorizerValue;
  readonly checked: CheckedResource;
  constructor(of: AuthorizerValue, checked: CheckedResource) {
    super();
    this.of = of;
    this.checked = checked;
  }
  with(change: Partial<CheckedResource>): ResourceCheck {
    return new ResourceCheck(this.of, { ...this.checked, ...change });
  }
}

class DecisionValue extends Receiver {
  readonly celType: CelType = DECISION;
  readonly decision: Decision;
  constructor(decision: Decision) {
    super();
    this.decision = decision;
  }
}

function checkPath(of: AuthorizerValue, path: string): PathCheck {
  if (path.trim() === "") throw new CelError("path must not be empty");
  return new PathCheck(of, path);
}

function asServiceAccount({ authorizer }: AuthorizerValue, namespace: string, name: string): AuthorizerValue {
  if (checkSubdomain(name) !== undefined) throw new CelError("Invalid service account name");
  if (checkDnsLabel(namespace) !== undefined) throw new CelError("Invalid service account namespace");
  const groups = ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, AUTHENTICATED_GROUP];
  return new AuthorizerValue({ name: `system:serviceaccount:${namespace}:${name}`, groups }, authorizer);
}

function checkResource({ of, group }: GroupCheck, resource: string): ResourceCheck {
  if (resource.trim() === "") throw new CelError("resource must not be empty");
  return new ResourceCheck(of, { group, resource, subresource: "", namespace: "", name: "" });
}

function decidePath({ of, path }: PathCheck, verb: string): DecisionValue {
  return decide(of, { user: of.user, verb, path });
}

function decideResource({ of, checked }: ResourceCheck, verb: string): DecisionValue {
  const { namespace, ...rest } = checked;
  const resource = { ...rest, namespace: namespace === "" ? undefined : namespace };
  return decide(of, { user: of.user, verb, resource });
}

function decide({ authorizer }: AuthorizerValue, attributes: Attributes): DecisionValue {
  return new DecisionValue(authorizer.authorize(attributes));
}

const AUTHZ = `${PREFIX}.Authorizer`;
const PATH = `${PREFIX}.PathCheck`;
const GROUP = `${PREFIX}.GroupCheck`;
const RESOURCE = `${PREFIX}.ResourceCheck`;
const ANSWER = `${PREFIX}.Decision`;

function step(field: keyof CheckedResource): Declaration {
  return [
    field,
    [
      `.resourcecheck_${field}(${RESOURCE}, string) -> ${RESOURCE}`,
      (it: ResourceCheck, value: string) => it.with({ [field]: value }),
    ],
  ];
}

/** RBAC does not look at selectors: what is allowed for some is allowed for all or not at all. */
const ignoreSelector = (it: ResourceCheck): ResourceCheck => it;

export const AUTHORIZATION: readonly Declaration[] = [
  ["path", [`.authorizer_path(${AUTHZ}, string) -> ${PATH}`, checkPath]],
  ["serviceAccount", [`.authorizer_serviceaccount(${AUTHZ}, string, string) -> ${AUTHZ}`, asServiceAccount]],
  [
    "group",
    [
      `.authorizer_group(${AUTHZ}, string) -> ${GROUP}`,
      (of: AuthorizerValue, group: string) => new GroupCheck(of, group),
    ],
  ],
  ["resource", [`.groupcheck_resource(${GROUP}, string) -> ${RESOURCE}`, checkResource]],
  step("subresource"),
  step("namespace"),
  step("name"),
  ["fieldSelector", [`.authorizer_fieldselector(${RESOURCE}, string) -> ${RESOURCE}`, ignoreSelector]],
  ["labelSelector", [`.authorizer_labelselector(${RESOURCE}, string) -> ${RESOURCE}`, ignoreSelector]],
  [
    "check",
    [`.pathcheck_check(${PATH}, string) -> ${ANSWER}`, decidePath],
    [`.resourcecheck_check(${RESOURCE}, string) -> ${ANSWER}`, decideResource],
  ],
  ["allowed", [`.decision_allowed(${ANSWER}) -> bool`, ({ decision }: DecisionValue) => decision.allowed]],
  ["reason", [`.decision_reason(${ANSWER}) -> string`, ({ decision }: DecisionValue) => decision.reason]],
  ["errored", [`.decision_errored(${ANSWER}) -> bool`, () => false]],
  ["error", [`.decision_error(${ANSWER}) -> string`, () => ""]],
];
