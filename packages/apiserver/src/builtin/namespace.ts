import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { dnsLabelProblems, qualifiedNameProblems } from "#values/names.ts";
import { invalid } from "#values/field-errors.ts";
import { ensureFields, fieldsAt, setDefault, stringsAt, textAt } from "@fairlead/base/fields.ts";

/** By which selectors find a namespace by its name (KEP-2161). */
const NAME_LABEL = "kubernetes.io/metadata.name";
const FINALIZER = "kubernetes";

export const namespaceStrategy: Partial<Strategy> = {
  generation: "none",
  checkName: dnsLabelProblems,
  // A name that is generated is known later.
  applyDefaults: (object) => {
    if ((object.metadata.name ?? "") !== "") setNameLabel(object);
  },
  prepareForCreate: (object) => {
    setNameLabel(object);
    const spec = ensureFields(object, "spec");
    const finalizers = stringsAt(spec, "finalizers");
    if (!finalizers.includes(FINALIZER)) spec["finalizers"] = [...finalizers, FINALIZER];
    object["status"] = { phase: "Active" };
  },
  prepareForUpdate: (object, old, { subresource }) => {
    if (subresource === "finalize") return;
    // Finalizers of the spec go through /finalize alone.
    object["spec"] = { ...fieldsAt(object, "spec"), ...fieldsAt(old, "spec") };
    setDefault(ensureFields(object, "status"), "phase", "Active");
  },
  validateCreate: (object) => specFinalizers(object, () => "spec.finalizers"),
  validateUpdate: (object, _old, { subresource }) => {
    if (subresource === "status") return phase(object);
    return subresource === "finalize" ? specFinalizers(object, (at) => `spec.finalizers[${at}]`) : [];
  },
  beginDeletion: (object) => {
    ensureFields(object, "status")["phase"] = "Terminating";
  },
  fieldSelectors: { "status.phase": (object) => textAt(fieldsAt(object, "status"), "phase") },
};

function setNameLabel({ metadata }: ApiObject): void {
  metadata.labels = { ...metadata.labels, [NAME_LABEL]: metadata.name };
}

/** Finalizers that need no domain in front. */
const STANDARD_FINALIZERS = new Set([FINALIZER, "orphan", "foregroundDeletion"]);

function specFinalizers(object: ApiObject, path: (at: number) => string): FieldError[] {
  return stringsAt(fieldsAt(object, "spec"), "finalizers").flatMap((it, at) => {
    const isBare = !it.includes("/") && !STANDARD_FINALIZERS.has(it);
    const detail = "name is neither a standard finalizer name nor is it fully qualified";
    return [
      ...qualifiedNameProblems(it).map((problem) => invalid(path(at), it, problem)),
      ...(isBare ? [invalid(path(at), it, detail)] : []),
    ];
  });
}

/** The namespace lifecycle sets the phase; writers may only repeat it. */
function phase(object: ApiObject): FieldError[] {
  const isEnding = object.metadata.deletionTimestamp !== undefined;
  const found = textAt(fieldsAt(object, "status"), "phase");
  if (found === (isEnding ? "Terminating" : "Active")) return [];
  const detail = isEnding
    ? "may only be 'Terminating' if `deletionTimestamp` is not empty"
    : "may only be 'Active' if `deletionTimestamp` is empty";
  return [invalid("status.Phase", found, detail)];
}
