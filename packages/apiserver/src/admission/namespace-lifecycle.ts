import type { Attributes } from "#registry/admission.ts";
import { NAMESPACES } from "#registry/namespaces.ts";
import { forbidden, notFound, StatusError } from "#status.ts";
import type { AdmissionPlugin } from "./chain.ts";

/** Nothing is made in a namespace that is not there, or on its way out. Source: plugin/namespace/lifecycle. */
export const namespaceLifecycle: AdmissionPlugin = {
  mutate(attributes) {
    if (attributes.operation === "CREATE") checkNamespace(attributes);
    return attributes.object;
  },
};

function checkNamespace({ definition, namespace, name, object, reader }: Attributes): void {
  if (!definition.namespaced) return;
  const found = reader.get("", NAMESPACES, undefined, namespace);
  if (found === undefined) throw notFound({ group: "", plural: NAMESPACES }, namespace);
  if (found.metadata.deletionTimestamp === undefined) return;
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  const refusal = forbidden(definition, name === "" ? (object?.metadata.generateName ?? "") : name, why);
  const cause = {
    reason: "NamespaceTerminating",
    message: `namespace ${namespace} is being terminated`,
    field: "metadata.namespace",
  };
  throw new StatusError({
    ...refusal.status,
    code: 403,
    details: { ...refusal.status.details, causes: [cause] },
  });
}
