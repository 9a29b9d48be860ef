import type { Strategy } from "../registry/types.ts";
import { dnsLabelProblems } from "../registry/names.ts";
import { ensureFields, fieldsAt, setDefault, stringsAt, textAt } from "./fields.ts";

/** By which selectors find a namespace by its name (KEP-2161). */
const NAME_LABEL = "kubernetes.io/metadata.name";
const FINALIZER = "kubernetes";

export const namespaceStrategy: Partial<Strategy> = {
  generation: "none",
  checkName: dnsLabelProblems,
  applyDefaults: (object) => {
    object.metadata.labels = { ...object.metadata.labels, [NAME_LABEL]: object.metadata.name };
  },
  prepareForCreate: (object) => {
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
  beginDeletion: (object) => {
    ensureFields(object, "status")["phase"] = "Terminating";
  },
  fieldSelectors: { "status.phase": (object) => textAt(fieldsAt(object, "status"), "phase") },
};
