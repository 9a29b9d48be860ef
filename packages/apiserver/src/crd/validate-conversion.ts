import { validateClientConfig, validateVersions } from "#admission/webhook/validate.ts";
import { notAllowed, notSupported, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, stringsAt } from "@fairlead/base/fields.ts";
import type { FieldError } from "#status.ts";

const PATH = "spec.conversion";
/** Errors name the fields as they are inside of the real server. */
const CONFIG = `${PATH}.webhookClientConfig`;
const VERSIONS = `${PATH}.conversionReviewVersions`;
const STRATEGIES = ["None", "Webhook"];

/** Source: apiextensions-apiserver, `validateCustomResourceConversion`. */
export function validateConversion(conversion: Fields): FieldError[] {
  const { strategy } = conversion;
  const webhook = fieldsAt(conversion, "webhook");
  const config = fieldsAt(webhook, "clientConfig");
  const versions = stringsAt(webhook, "conversionReviewVersions");
  const errors = STRATEGIES.some((it) => it === strategy)
    ? []
    : [notSupported(`${PATH}.strategy`, strategy ?? "", STRATEGIES)];
  if (strategy === "Webhook") {
    return [
      ...(config === undefined
        ? [required(CONFIG, "required when strategy is set to Webhook")]
        : validateClientConfig(config, CONFIG)),
      ...(versions.length === 0 ? [required(VERSIONS)] : validateVersions(versions, VERSIONS)),
    ];
  }
  const detail = "should not be set when strategy is not set to Webhook";
  if (config !== undefined) errors.push(notAllowed(CONFIG, detail));
  if (versions.length > 0) errors.push(notAllowed(VERSIONS, detail));
  return errors;
}
