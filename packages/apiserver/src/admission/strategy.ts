import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  setDefault,
  setDefaults,
} from "@fairlead/base/fields.ts";
import type { Strategy } from "#registry/types.ts";
import { validateBinding, validatePolicy } from "./policy/validate.ts";
import { validateWebhooks } from "./webhook/validate.ts";

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

export const policyStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    setDefault(spec, "failurePolicy", "Fail");
    defaultMatch(fieldsAt(spec, "matchConstraints"));
  },
  validateCreate: validatePolicy,
  validateUpdate: validatePolicy,
};

export const policyBindingStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
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
