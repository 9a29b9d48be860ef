import { forbidden, StatusError } from "#status.ts";
import type { Attributes, Decision } from "#values/authorizer.ts";

/** The refusal that a denied request gets. Texts as upstream: users know them, and search for them. */
export function denial(attributes: Attributes, decision: Decision): StatusError {
  const why = decision.reason === "" ? "" : `: ${decision.reason}`;
  if ("path" in attributes) {
    const { user, verb, path } = attributes;
    const message = `forbidden: User ${quote(user.name)} cannot ${verb} path ${quote(path)}${why}`;
    return new StatusError({ code: 403, reason: "Forbidden", message, details: {} });
  }
  const { resource, user, verb } = attributes;
  const scope =
    resource.namespace === undefined
      ? "at the cluster scope"
      : `in the namespace ${quote(resource.namespace)}`;
  const text =
    `User ${quote(user.name)} cannot ${verb} resource ${quote(fullName(resource))} ` +
    `in API group ${quote(resource.group)} ${scope}${why}`;
  return forbidden({ group: resource.group, plural: resource.resource }, resource.name, text);
}

/** "pods" or "pods/exec". */
export function fullName(of: { readonly resource: string; readonly subresource: string }): string {
  return of.subresource === "" ? of.resource : `${of.resource}/${of.subresource}`;
}

function quote(text: string): string {
  return JSON.stringify(text);
}
