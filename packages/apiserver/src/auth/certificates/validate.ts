import { X509Certificate } from "node:crypto";
import { sameJson } from "@fairlead/base/json.ts";
import { duplicate, invalid, notAllowed, notSupported, required, tooLong } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { checkDnsLabel, checkSubdomain } from "#values/names.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { DerError } from "@fairlead/base/pki/der.ts";
import { parseCertificateRequest } from "@fairlead/base/pki/request.ts";

/** Validates CertificateSigningRequests. Source: k8s.io/kubernetes, pkg/apis/certificates/validation. */

const USAGES: readonly string[] = [
  "any",
  "cert sign",
  "client auth",
  "code signing",
  "content commitment",
  "crl sign",
  "data encipherment",
  "decipher only",
  "digital signature",
  "email protection",
  "encipher only",
  "ipsec end system",
  "ipsec tunnel",
  "ipsec user",
  "key agreement",
  "key encipherment",
  "microsoft sgc",
  "netscape sgc",
  "ocsp signing",
  "s/mime",
  "server auth",
  "signing",
  "timestamping",
];
/** Unit: seconds. */
const MIN_LIFETIME = 600;
const LEGACY_SIGNER = "kubernetes.io/legacy-unknown";
const MAX_SIGNER_LENGTH = 571;
/** Conditions that only ever come. */
const FINAL_TYPES = ["Approved", "Denied", "Failed"];
const APPROVALS: ReadonlySet<string> = new Set(["Approved", "Denied"]);
const CONDITIONS = "status.conditions";
const CERTIFICATE = "status.certificate";

export function validateRequest(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  return [
    ...validateEncoded(textAt(spec, "request")),
    ...validateUsages(stringsAt(spec, "usages")),
    ...validateSigner(textAt(spec, "signerName")),
    ...validateLifetime(numberAt(spec, "expirationSeconds")),
    ...validateConditions(itemsAt(fieldsAt(object, "status"), "conditions")),
    ...validateIssued(textAt(fieldsAt(object, "status"), "certificate")),
  ];
}

function validateEncoded(request: string): FieldError[] {
  try {
    parseCertificateRequest(Buffer.from(request, "base64").toString("latin1"));
    return [];
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    return [invalid("spec.request", request, error.message)];
  }
}

function validateUsages(usages: readonly string[]): FieldError[] {
  if (usages.length === 0) return [required("spec.usages")];
  const at = (index: number): string => `spec.usages[${index}]`;
  return [
    ...usages.flatMap((it, index) => (USAGES.includes(it) ? [] : [notSupported(at(index), it, USAGES)])),
    ...usages.flatMap((it, index) => (usages.indexOf(it) < index ? [duplicate(at(index), it)] : [])),
  ];
}

function validateSigner(name: string): FieldError[] {
  const path = "spec.signerName";
  if (name === LEGACY_SIGNER) {
    return [invalid(path, name, "the legacy signerName is not allowed via this API version")];
  }
  if (name === "") return [required(path)];
  const [domain = "", local, ...rest] = name.split("/");
  if (local === undefined || rest.length > 0) {
    const detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    return [invalid(path, name, detail)];
  }
  const labels = domain.split(".");
  const errors = validateLabels(path, { whole: domain, labels, check: checkDnsLabel });
  if (labels.length < 2) {
    errors.push(invalid(path, domain, "should be a domain with at least two segments separated by dots"));
  }
  errors.push(...validateLabels(path, { whole: local, labels: local.split("."), check: checkSubdomain }));
  return name.length > MAX_SIGNER_LENGTH ? [...errors, tooLong(path, MAX_SIGNER_LENGTH)] : errors;
}

/** The first label that is wrong: those that follow would say the same. */
function validateLabels(
  path: string,
  of: {
    readonly whole: string;
    readonly labels: readonly string[];
    readonly check: (label: string) => string | undefined;
  },
): FieldError[] {
  for (const label of of.labels) {
    const wrong = of.check(label);
    if (wrong === undefined) continue;
    return [invalid(path, of.whole, `validating label ${JSON.stringify(label)}: ${wrong}`)];
  }
  return [];
}

function validateLifetime(seconds: number | undefined): FieldError[] {
  if (seconds === undefined || seconds >= MIN_LIFETIME) return [];
  const detail = "may not specify a duration less than 600 seconds (10 minutes)";
  return [invalid("spec.expirationSeconds", seconds, detail)];
}

function validateConditions(conditions: readonly Fields[]): FieldError[] {
  const types = conditions.map((it) => textAt(it, "type"));
  return conditions.flatMap((condition, index) => {
    const [type, status] = [types[index] ?? "", textAt(condition, "status")];
    const path = `${CONDITIONS}[${index}]`;
    const supported = FINAL_TYPES.includes(type) ? ["True"] : ["False", "True", "Unknown"];
    const errors = type === "" ? [required(`${path}.type`)] : [];
    if (status === "") errors.push(required(`${path}.status`));
    else if (!supported.includes(status)) errors.push(notSupported(`${path}.status`, status, supported));
    const before = types.slice(0, index);
    if (APPROVALS.has(type) && before.some((it) => it !== type && APPROVALS.has(it))) {
      errors.push(invalid(CONDITIONS, type, "Approved and Denied conditions are mutually exclusive"));
    }
    if (before.includes(type)) errors.push(duplicate(`${path}.type`, type));
    return errors;
  });
}

function validateIssued(encoded: string): FieldError[] {
  if (encoded === "") return [];
  const wrong = checkCertificates(Buffer.from(encoded, "base64").toString("latin1"));
  return wrong === undefined ? [] : [invalid(CERTIFICATE, "<certificate data>", wrong)];
}

function checkCertificates(pem: string): string | undefined {
  const blocks = [...pem.matchAll(/-----BEGIN ([^-\r\n]+)-----([^-]*)-----END \1-----/g)];
  if (blocks.length === 0) return "must contain at least one CERTIFICATE PEM block";
  for (const [text, type, body = ""] of blocks) {
    if (type !== "CERTIFICATE") {
      return `only CERTIFICATE PEM blocks are allowed, found ${JSON.stringify(type)}`;
    }
    if (body.includes(":")) return "no PEM block headers are permitted";
    try {
      // Made only to see whether it can be.
      void new X509Certificate(text).serialNumber;
    } catch {
      return "x509: malformed certificate";
    }
  }
  return undefined;
}

/** The mutable fields by subresource: `approval` sets the decision, `status` the rest. */
export function validateProgress(object: ApiObject, old: ApiObject, subresource: string): FieldError[] {
  const [now, before] = [fieldsAt(object, "status"), fieldsAt(old, "status")];
  const changes = FINAL_TYPES.map((type) => ({
    type,
    now: ofType(now, type),
    before: ofType(before, type),
  }));
  const errors = changes
    .filter((it) => it.now.length < it.before.length)
    .map((it) => notAllowed(CONDITIONS, `updates may not remove a condition of type "${it.type}"`));
  if (subresource !== "approval") {
    for (const it of changes.filter((change) => APPROVALS.has(change.type))) {
      if (it.now.length > it.before.length) {
        errors.push(notAllowed(CONDITIONS, `updates may not add a condition of type "${it.type}"`));
      } else if (it.now.length === it.before.length && !sameJson(it.now, it.before)) {
        errors.push(notAllowed(CONDITIONS, `updates may not modify a condition of type "${it.type}"`));
      }
    }
  }
  const issued = textAt(before, "certificate");
  if (textAt(now, "certificate") !== issued && issued !== "") {
    errors.push(notAllowed(CERTIFICATE, "updates may not modify existing certificate content"));
  }
  return errors;
}

export function ofType(status: Fields | undefined, type: string): readonly Fields[] {
  return itemsAt(status, "conditions").filter((it) => textAt(it, "type") === type);
}
