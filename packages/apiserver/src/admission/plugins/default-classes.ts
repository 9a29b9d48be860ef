import { byText } from "@fairlead/base/text.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import { ensureFields, fieldsAt } from "@fairlead/base/fields.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ApiObject } from "#values/object.ts";
import type { AdmissionPlugin } from "../chain.ts";

/** Claims and Ingresses that name no class get the default one. */

const STORAGE_ANNOTATIONS = [
  "storageclass.kubernetes.io/is-default-class",
  "storageclass.beta.kubernetes.io/is-default-class",
];
const STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class";
const INGRESS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";
const INGRESS_CLASS_ANNOTATION = "kubernetes.io/ingress.class";

/** Source: plugin/pkg/admission/storage/storageclass/setdefault. */
export const defaultStorageClass: AdmissionPlugin = {
  mutate(attributes) {
    const { object } = attributes;
    if (object === undefined || !isNew(attributes, "", "persistentvolumeclaims")) return object;
    const isNamed =
      fieldsAt(object, "spec")?.["storageClassName"] !== undefined ||
      object.metadata.annotations?.[STORAGE_CLASS_ANNOTATION] !== undefined;
    if (isNamed) return object;
    const [chosen] = defaults(
      attributes,
      { group: "storage.k8s.io", plural: "storageclasses" },
      STORAGE_ANNOTATIONS,
    );
    return chosen === undefined ? object : withClass(object, "storageClassName", chosen);
  },
};

/** Source: plugin/pkg/admission/network/defaultingressclass. */
export const defaultIngressClass: AdmissionPlugin = {
  mutate(attributes) {
    const { object } = attributes;
    if (object === undefined || !isNew(attributes, "networking.k8s.io", "ingresses")) return object;
    const isNamed =
      fieldsAt(object, "spec")?.["ingressClassName"] !== undefined ||
      object.metadata.annotations?.[INGRESS_CLASS_ANNOTATION] !== undefined;
    if (isNamed) return object;
    const of = { group: "networking.k8s.io", plural: "ingressclasses" };
    const [chosen] = defaults(attributes, of, [INGRESS_ANNOTATION]);
    return chosen === undefined ? object : withClass(object, "ingressClassName", chosen);
  },
};

function isNew({ definition, operation, subresource }: Attributes, group: string, plural: string): boolean {
  return (
    operation === "CREATE" && subresource === "" && definition.group === group && definition.plural === plural
  );
}

/** Those that are marked, the newest first. */
function defaults(
  { reader }: Attributes,
  { group, plural }: { readonly group: string; readonly plural: string },
  annotations: readonly string[],
): readonly ApiObject[] {
  return [...reader.list(group, plural)]
    .filter((it) => annotations.some((key) => it.metadata.annotations?.[key] === "true"))
    .toSorted(
      ({ metadata: a }, { metadata: b }) =>
        byText(b.creationTimestamp ?? "", a.creationTimestamp ?? "") || byText(a.name, b.name),
    );
}

function withClass(object: ApiObject, field: string, { metadata }: ApiObject): ApiObject {
  const made = cloneJson(object);
  ensureFields(made, "spec")[field] = metadata.name;
  return made;
}
