import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { schemaOf } from "#builtin/define.ts";
import { fieldsAt, type Fields, itemsAt, stringAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import type { ReviewDefinition, ReviewRequest } from "#registry/types.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import { badRequest, type FieldError, invalid, type StatusError } from "#status.ts";
import type { Attributes, Authorizer } from "#values/authorizer.ts";

/** Reviews of permissions. Source: k8s.io/kubernetes, pkg/registry/authorization. */

const GROUP = "authorization.k8s.io";

export function accessReviews(authorizer: Authorizer): readonly ReviewDefinition[] {
  const decide = (object: ApiObject, user: UserInfo): ApiObject => {
    const attributes = attributesOf(object, user);
    const { allowed, reason } = authorizer.authorize(attributes);
    return { ...object, status: { allowed, ...(reason === "" ? {} : { reason }) } };
  };
  return [
    define("SubjectAccessReview", "subjectaccessreviews", ({ object }) => decide(object, subjectOf(object))),
    define("SelfSubjectAccessReview", "selfsubjectaccessreviews", ({ object, user }) => decide(object, user)),
    {
      ...define("LocalSubjectAccessReview", "localsubjectaccessreviews", ({ object, namespace = "" }) => {
        const local = { ...object, metadata: { ...object.metadata, namespace } };
        checkLocal(local, namespace);
        return decide(local, subjectOf(local));
      }),
      namespaced: true,
    },
    define("SelfSubjectRulesReview", "selfsubjectrulesreviews", ({ object, user }) => {
      const namespace = textAt(fieldsAt(object, "spec"), "namespace");
      if (namespace === "") throw badRequest("no namespace on request");
      const rules = authorizer.rulesFor(user, namespace);
      const { apiVersion, kind } = object;
      return {
        apiVersion,
        kind,
        metadata: {} as ObjectMeta,
        spec: {},
        status: { ...rules, incomplete: false },
      };
    }),
  ];
}

function define(
  kind: string,
  plural: string,
  review: (request: ReviewRequest) => ApiObject,
): ReviewDefinition {
  const schema = schemaOf(`${GROUP}/v1`, kind);
  return { group: GROUP, version: "v1", plural, kind, namespaced: false, schema, review };
}

/** The user whose permissions are reviewed. */
function subjectOf(object: ApiObject): UserInfo {
  const spec = fieldsAt(object, "spec");
  const name = textAt(spec, "user");
  const groups = stringsAt(spec, "groups");
  if (name === "" && groups.length === 0) {
    const message = 'Invalid value: "": at least one of user or group must be specified';
    throw refuse("spec.user", message);
  }
  return { name, groups };
}

function attributesOf(object: ApiObject, user: UserInfo): Attributes {
  const spec = fieldsAt(object, "spec");
  const resource = fieldsAt(spec, "resourceAttributes");
  const path = fieldsAt(spec, "nonResourceAttributes");
  if (resource !== undefined && path !== undefined) {
    const value = JSON.stringify({ Path: textAt(path, "path"), Verb: textAt(path, "verb") });
    const message = `Invalid value: ${value}: cannot be specified in combination with resourceAttributes`;
    throw refuse("spec.nonResourceAttributes", message);
  }
  if (resource === undefined && path === undefined) {
    const message =
      "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    throw refuse("spec.resourceAttributes", message);
  }
  if (resource === undefined) return { user, verb: textAt(path, "verb"), path: textAt(path, "path") };
  return resourceAttributes(resource, user);
}

/** Upstream names no kind here. */
function refuse(field: string, message: string, type: FieldError["type"] = "FieldValueInvalid"): StatusError {
  return invalid(GROUP, "", "", [{ type, field, message }]);
}

function resourceAttributes(of: Fields, user: UserInfo): Attributes {
  for (const field of ["fieldSelector", "labelSelector"]) checkSelector(fieldsAt(of, field), field);
  const namespace = stringAt(of, "namespace") || undefined;
  const resource = {
    group: textAt(of, "group"),
    resource: textAt(of, "resource"),
    subresource: textAt(of, "subresource"),
    namespace,
    name: textAt(of, "name"),
  };
  return { user, verb: textAt(of, "verb"), resource };
}

/** A selector comes as a text or as requirements. */
function checkSelector(selector: Fields | undefined, field: string): void {
  if (selector === undefined) return;
  const path = `spec.resourceAttributes.${field}`;
  const text = textAt(selector, "rawSelector");
  const count = itemsAt(selector, "requirements").length;
  if (text !== "" && count > 0) {
    const message = `Invalid value: ${JSON.stringify(text)}: may not specified at the same time as requirements`;
    throw refuse(`${path}.rawSelector`, message);
  }
  if (text !== "" || count > 0) return;
  const message = `Required value: when ${path} is specified, requirements or rawSelector is required`;
  throw refuse(`${path}.requirements`, message, "FieldValueRequired");
}

function checkLocal(object: ApiObject, namespace: string): void {
  const asked = textAt(fieldsAt(fieldsAt(object, "spec"), "resourceAttributes"), "namespace");
  if (asked === namespace) return;
  const message = `Invalid value: ${JSON.stringify(asked)}: must match metadata.namespace`;
  throw refuse("spec.resourceAttributes.namespace", message);
}
