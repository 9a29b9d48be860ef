import { schemaOf } from "../builtin/define.ts";
import { fieldsAt, type Fields, stringAt, stringsAt, textAt } from "../builtin/fields.ts";
import type { ApiObject, ReviewDefinition, ReviewRequest, UserInfo } from "../registry/types.ts";
import { badRequest, invalid } from "../status.ts";
import type { Attributes, Authorizer } from "./types.ts";

/** What may be asked about permissions. Source: k8s.io/kubernetes, pkg/registry/authorization. */

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
        checkLocal(object, namespace);
        return decide(object, subjectOf(object));
      }),
      namespaced: true,
    },
    define("SelfSubjectRulesReview", "selfsubjectrulesreviews", ({ object, user }) => {
      const namespace = textAt(fieldsAt(object, "spec"), "namespace");
      if (namespace === "") throw badRequest("no namespace on request");
      const rules = authorizer.rulesFor(user, namespace);
      return { ...object, status: { ...rules, incomplete: false } };
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

/** Whose permissions are asked for. */
function subjectOf(object: ApiObject): UserInfo {
  const spec = fieldsAt(object, "spec");
  const name = textAt(spec, "user");
  const groups = stringsAt(spec, "groups");
  if (name === "" && groups.length === 0) {
    const message = 'Invalid value: "": at least one of user or group must be specified';
    throw invalid(GROUP, object.kind, "", [{ type: "FieldValueInvalid", field: "spec.user", message }]);
  }
  return { name, groups };
}

function attributesOf(object: ApiObject, user: UserInfo): Attributes {
  const spec = fieldsAt(object, "spec");
  const resource = fieldsAt(spec, "resourceAttributes");
  const path = fieldsAt(spec, "nonResourceAttributes");
  if ((resource === undefined) === (path === undefined)) {
    const message =
      "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    throw invalid(GROUP, object.kind, "", [
      { type: "FieldValueInvalid", field: "spec.resourceAttributes", message },
    ]);
  }
  if (resource === undefined) return { user, verb: textAt(path, "verb"), path: textAt(path, "path") };
  return resourceAttributes(resource, user);
}

function resourceAttributes(of: Fields, user: UserInfo): Attributes {
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

function checkLocal(object: ApiObject, namespace: string): void {
  const asked = textAt(fieldsAt(fieldsAt(object, "spec"), "resourceAttributes"), "namespace");
  if (asked === namespace) return;
  throw badRequest(`spec.resourceAttributes.namespace must match namespace: ${namespace}`);
}
