import { checkSubdomain, dns1035Problems } from "#values/names.ts";
import { duplicate, invalid, notSupported, required, unlessOneOf } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { labelSelector } from "#builtin/labels.ts";
import { fields } from "#builtin/rules.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { BOOLEAN, REQUEST_SCOPE } from "../expressions.ts";
import { FAILURE_POLICIES, MATCH_POLICIES, validateConditions, validateRule } from "../validate-rules.ts";

/** Validates webhook configurations. Source: pkg/apis/admissionregistration/validation. */

const REVIEW_VERSIONS = ["v1", "v1beta1"];
const SIDE_EFFECTS = ["None", "NoneOnDryRun"];
/** Unit: seconds. */
const MAX_TIMEOUT = 30;

const CONDITIONS = { scope: REQUEST_SCOPE, returns: BOOLEAN };

export function validateWebhooks(object: ApiObject): FieldError[] {
  const seen = new Set<string>();
  return itemsAt(object, "webhooks").flatMap((webhook, at) => {
    const path = `webhooks[${at}]`;
    const name = textAt(webhook, "name");
    const isTwice = name !== "" && seen.has(name);
    seen.add(name);
    return [
      ...validateWebhook(webhook, path),
      ...validateVersions(stringsAt(webhook, "admissionReviewVersions"), `${path}.admissionReviewVersions`),
      ...(isTwice ? [duplicate(`${path}.name`, name)] : []),
    ];
  });
}

const selectors = fields({ namespaceSelector: labelSelector, objectSelector: labelSelector });

function validateWebhook(webhook: Fields, path: string): FieldError[] {
  const timeout = webhook["timeoutSeconds"];
  const isTimely = typeof timeout !== "number" || (timeout >= 1 && timeout <= MAX_TIMEOUT);
  return [
    ...validateName(textAt(webhook, "name"), `${path}.name`),
    ...itemsAt(webhook, "rules").flatMap((it, at) => validateRule(it, `${path}.rules[${at}]`)),
    ...unlessOneOf(`${path}.failurePolicy`, webhook["failurePolicy"], FAILURE_POLICIES),
    ...unlessOneOf(`${path}.matchPolicy`, webhook["matchPolicy"], MATCH_POLICIES),
    ...validateSideEffects(webhook["sideEffects"], `${path}.sideEffects`),
    ...(isTimely
      ? []
      : [invalid(`${path}.timeoutSeconds`, timeout, "the timeout value must be between 1 and 30 seconds")]),
    ...validateClientConfig(fieldsAt(webhook, "clientConfig") ?? {}, `${path}.clientConfig`),
    ...selectors(webhook, path),
    ...validateConditions(webhook, `${path}.matchConditions`, CONDITIONS),
    ...unlessOneOf(`${path}.reinvocationPolicy`, webhook["reinvocationPolicy"], ["IfNeeded", "Never"]),
  ];
}

function validateName(name: string, field: string): FieldError[] {
  if (name === "") return [required(field)];
  const wrong = [checkSubdomain(name) ?? []].flat();
  if (wrong.length > 0) return wrong.map((it) => invalid(field, name, it));
  if (name.split(".").length >= 3) return [];
  return [invalid(field, name, "should be a domain with at least three segments separated by dots")];
}

function validateSideEffects(value: unknown, field: string): FieldError[] {
  if (value === undefined || value === null)
    return [required(field, `must specify one of ${SIDE_EFFECTS.join(", ")}`)];
  return SIDE_EFFECTS.some((it) => it === value) ? [] : [notSupported(field, value, SIDE_EFFECTS)];
}

/** @param versions - Of AdmissionReview or ConversionReview. */
export function validateVersions(versions: readonly string[], field: string): FieldError[] {
  if (versions.length === 0) return [required(field, `must specify one of ${REVIEW_VERSIONS.join(", ")}`)];
  const errors: FieldError[] = [];
  for (const [at, version] of versions.entries()) {
    if (versions.indexOf(version) < at) {
      errors.push(invalid(`${field}[${at}]`, version, "duplicate version"));
      continue;
    }
    errors.push(...dns1035Problems(version).map((it) => invalid(`${field}[${at}]`, version, it)));
  }
  if (!versions.some((it) => REVIEW_VERSIONS.includes(it))) {
    errors.push(invalid(field, versions, `must include at least one of ${REVIEW_VERSIONS.join(", ")}`));
  }
  return errors;
}

/** Of webhooks of admission and of conversion. */
export function validateClientConfig(config: Fields, path: string): FieldError[] {
  const { url } = config;
  const service = fieldsAt(config, "service");
  if ((url === undefined) === (service === undefined)) {
    return [required(path, "exactly one of url or service is required")];
  }
  const place =
    typeof url === "string"
      ? validateUrl(url, `${path}.url`)
      : validateService(service ?? {}, `${path}.service`);
  return place;
}

const FORM = "; desired format: https://host[/path]";

function validateUrl(text: string, field: string): FieldError[] {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    return [required(field, `url must be a valid URL: ${(error as Error).message}${FORM}`)];
  }
  const scheme = url.protocol.slice(0, -1);
  const user = url.password === "" ? url.username : `${url.username}:${url.password}`;
  return [
    ...(scheme === "https" ? [] : [invalid(field, scheme, `'https' is the only allowed URL scheme${FORM}`)]),
    ...(url.host === "" ? [invalid(field, "", `host must be specified${FORM}`)] : []),
    ...(user === "" ? [] : [invalid(field, user, "user information is not permitted in the URL")]),
    ...(url.hash === "" ? [] : [invalid(field, url.hash.slice(1), "fragments are not permitted in the URL")]),
    ...(url.search === ""
      ? []
      : [invalid(field, url.search.slice(1), "query parameters are not permitted in the URL")]),
  ];
}

function validateService(service: Fields, path: string): FieldError[] {
  const port = service["port"] ?? 443;
  const isPort = typeof port === "number" && port >= 1 && port <= 65_535;
  return [
    ...(textAt(service, "name") === "" ? [required(`${path}.name`)] : []),
    ...(textAt(service, "namespace") === "" ? [required(`${path}.namespace`)] : []),
    ...(isPort
      ? []
      : [invalid(`${path}.port`, port, "port is not valid: must be between 1 and 65535, inclusive")]),
    ...validatePath(textAt(service, "path"), `${path}.path`),
  ];
}

function validatePath(path: string, field: string): FieldError[] {
  if (path === "" || path === "/") return [];
  if (path === "//") return [invalid(field, path, "segment[0] may not be empty")];
  const errors = path.startsWith("/") ? [] : [invalid(field, path, "must start with a '/'")];
  const steps = path.slice(1).replace(/\/$/, "").split("/");
  for (const [at, step] of steps.entries()) {
    if (step === "") errors.push(invalid(field, path, `segment[${at}] may not be empty`));
    else
      errors.push(
        ...[checkSubdomain(step) ?? []].flat().map((it) => invalid(field, path, `segment[${at}]: ${it}`)),
      );
  }
  return errors;
}
