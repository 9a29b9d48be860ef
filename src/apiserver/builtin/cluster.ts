import { validateBinding, validatePolicy } from "../admission/policy/validate.ts";
import { validateWebhooks } from "../admission/webhook/validate.ts";
import type { Strategy } from "../registry/types.ts";
import { IMMUTABLE, invalid, notAllowed, required } from "./field-errors.ts";
import { ensureFields, type Fields, fieldsAt, itemsAt, setDefault, setDefaults, textAt } from "./fields.ts";

/** Kinds that set something for the cluster as a whole: defaults, and what may not be said. */

/** Above it are the priorities of the system. */
const MAX_USER_PRIORITY = 1_000_000_000;

export const priorityClassStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => setDefault(object, "preemptionPolicy", "PreemptLowerPriority"),
  validateCreate: (object) => {
    const { value } = object;
    if (typeof value !== "number" || value <= MAX_USER_PRIORITY) return [];
    const detail = `maximum allowed value of a user defined priority is ${MAX_USER_PRIORITY}`;
    return object.metadata.name.startsWith("system-") ? [] : [notAllowed("value", detail)];
  },
  validateUpdate: (object, old) =>
    ["value", "preemptionPolicy"]
      .filter((it) => object[it] !== old[it])
      .map((it) => notAllowed(it, "may not be changed in an update.")),
};

export const storageClassStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => setDefaults(object, { reclaimPolicy: "Delete", volumeBindingMode: "Immediate" }),
  validateCreate: (object) => (textAt(object, "provisioner") === "" ? [required("provisioner")] : []),
  validateUpdate: (object, old) =>
    ["provisioner", "reclaimPolicy", "volumeBindingMode"]
      .filter((it) => object[it] !== old[it])
      .map((it) => invalid(it, object[it], IMMUTABLE)),
};

/** Unit: seconds. */
const WEBHOOK_TIMEOUT = 10;
const WEBHOOK_PORT = 443;

export const webhookStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
  applyDefaults: (object) => {
    for (const webhook of itemsAt(object, "webhooks")) defaultWebhook(webhook, object.kind);
  },
  validateCreate: validateWebhooks,
  validateUpdate: validateWebhooks,
};

function defaultWebhook(webhook: Fields, kind: string): void {
  setDefaults(webhook, {
    failurePolicy: "Fail",
    matchPolicy: "Equivalent",
    namespaceSelector: {},
    objectSelector: {},
    timeoutSeconds: WEBHOOK_TIMEOUT,
    ...(kind === "MutatingWebhookConfiguration" ? { reinvocationPolicy: "Never" } : {}),
  });
  const service = fieldsAt(fieldsAt(webhook, "clientConfig"), "service");
  if (service !== undefined) setDefault(service, "port", WEBHOOK_PORT);
  for (const rule of itemsAt(webhook, "rules")) setDefault(rule, "scope", "*");
}

export const admissionPolicyStrategy: Partial<Strategy> = {
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    setDefault(spec, "failurePolicy", "Fail");
    defaultMatch(fieldsAt(spec, "matchConstraints"));
  },
  validateCreate: validatePolicy,
  validateUpdate: validatePolicy,
};

export const admissionPolicyBindingStrategy: Partial<Strategy> = {
  applyDefaults: (object) => defaultMatch(fieldsAt(fieldsAt(object, "spec"), "matchResources")),
  validateCreate: validateBinding,
  validateUpdate: validateBinding,
};

function defaultMatch(match: Fields | undefined): void {
  if (match === undefined) return;
  setDefaults(match, { matchPolicy: "Equivalent", namespaceSelector: {}, objectSelector: {} });
  for (const rule of [...itemsAt(match, "resourceRules"), ...itemsAt(match, "excludeResourceRules")]) {
    setDefault(rule, "scope", "*");
  }
}

export const apiServiceStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  applyDefaults: (object) => {
    const service = fieldsAt(fieldsAt(object, "spec"), "service");
    if (service !== undefined) setDefault(service, "port", WEBHOOK_PORT);
  },
  validateCreate: (object) => {
    const spec = fieldsAt(object, "spec");
    const wanted = `${textAt(spec, "version")}.${textAt(spec, "group")}`;
    if (object.metadata.name === wanted) return [];
    return [
      invalid("metadata.name", object.metadata.name, `must be \`spec.version+"."+spec.group\`: "${wanted}"`),
    ];
  },
};
