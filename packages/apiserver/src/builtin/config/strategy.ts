import { sameJson } from "@fairlead/base/json.ts";
import {
  ACCOUNT_NAME_ANNOTATION,
  fillTokenSecret,
  type SecretTokenOptions,
  TOKEN_SECRET_TYPE,
} from "./secret-tokens.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { type FieldError, MAX_REPORTED_ERRORS } from "#status.ts";
import { IMMUTABLE, invalid, notAllowed, required, tooLong } from "#values/field-errors.ts";
import { type Fields, fieldsAt, setDefault, stringMapAt, textAt } from "@fairlead/base/fields.ts";
import { dataKeyProblems } from "../names.ts";

/** ConfigMaps and Secrets. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

/** Largest sum of keys and values. Unit: bytes. */
const MAX_DATA_BYTES = 1024 * 1024;

export const configMapStrategy: Partial<Strategy> = {
  generation: "none",
  validateCreate: validateConfigMap,
  validateUpdate: (object, old) => [
    ...validateConfigMap(object),
    ...validateImmutable(object, old, ["data", "binaryData"]),
  ],
};

function validateConfigMap(object: ApiObject): FieldError[] {
  const data = stringMapAt(object, "data");
  const binary = stringMapAt(object, "binaryData");
  const shared = Object.keys(binary).filter((it) => Object.hasOwn(data, it));
  return [
    ...validateKeys("data", data),
    ...validateKeys("binaryData", binary),
    ...shared.map((it) => invalid(`data[${it}]`, it, "duplicate of key present in binaryData")),
    ...validateBase64("binaryData", binary),
    ...(textBytes(data) + decodedBytes(binary) > MAX_DATA_BYTES ? [tooLong("[]", MAX_DATA_BYTES)] : []),
  ];
}

function textBytes(data: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const key of Object.keys(data)) bytes += Buffer.byteLength(data[key] ?? "");
  return bytes;
}

export function secretStrategy(tokens: SecretTokenOptions): Partial<Strategy> {
  return {
    ...secretRules,
    prepareForCreate: (object, { reader }) => fillTokenSecret(object, reader, tokens),
    prepareForUpdate: (object, _old, { reader }) => fillTokenSecret(object, reader, tokens),
  };
}

const secretRules: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    setDefault(object, "type", "Opaque");
    mergeStringData(object);
  },
  validateCreate: validateSecret,
  validateUpdate: (object, old) => {
    const errors = [...validateSecret(object), ...validateImmutable(object, old, ["data"])];
    if (object["type"] !== old["type"]) errors.push(invalid("type", object["type"], IMMUTABLE));
    return errors;
  },
  fieldSelectors: { type: (object) => textAt(object, "type") },
};

/** `stringData` is a way to write `data`; it is never stored. */
function mergeStringData(object: ApiObject): void {
  const texts = Object.entries(stringMapAt(object, "stringData"));
  delete object["stringData"];
  if (texts.length === 0) return;
  const data: Fields = { ...fieldsAt(object, "data") };
  for (const [key, text] of texts) data[key] = Buffer.from(text, "utf8").toString("base64");
  object["data"] = data;
}

/** Keys that a Secret of a type must have; all of them, or any for "some". With `filled`, they hold something. */
const REQUIRED_KEYS: Readonly<
  Record<string, { readonly of: "all" | "some"; readonly keys: readonly string[]; readonly filled?: boolean }>
> = {
  "kubernetes.io/dockercfg": { of: "all", keys: [".dockercfg"] },
  "kubernetes.io/dockerconfigjson": { of: "all", keys: [".dockerconfigjson"] },
  "kubernetes.io/basic-auth": { of: "some", keys: ["username", "password"] },
  "kubernetes.io/ssh-auth": { of: "all", keys: ["ssh-privatekey"], filled: true },
  "kubernetes.io/tls": { of: "all", keys: ["tls.crt", "tls.key"] },
};

function validateSecret(object: ApiObject): FieldError[] {
  const data = stringMapAt(object, "data");
  return [
    ...validateKeys("data", data),
    ...validateBase64("data", data),
    ...(decodedBytes(data) > MAX_DATA_BYTES ? [tooLong("data", MAX_DATA_BYTES)] : []),
    ...validateType(object, data),
  ];
}

function validateType(object: ApiObject, data: Readonly<Record<string, string>>): FieldError[] {
  const type = textAt(object, "type");
  if (type === TOKEN_SECRET_TYPE) {
    const name = object.metadata.annotations?.[ACCOUNT_NAME_ANNOTATION] ?? "";
    return name === "" ? [required(`metadata.annotations[${ACCOUNT_NAME_ANNOTATION}]`)] : [];
  }
  const rule = Object.hasOwn(REQUIRED_KEYS, type) ? REQUIRED_KEYS[type] : undefined;
  if (rule === undefined) return [];
  const missing = rule.keys.filter(
    (it) => !Object.hasOwn(data, it) || (rule.filled === true && data[it] === ""),
  );
  const isEnough = rule.of === "all" ? missing.length === 0 : missing.length < rule.keys.length;
  if (!isEnough) return missing.map((it) => required(`data[${it}]`));
  return rule.keys.filter((it) => it.startsWith(".docker")).flatMap((it) => validateJson(it, data[it] ?? ""));
}

function validateJson(key: string, encoded: string): FieldError[] {
  try {
    JSON.parse(Buffer.from(encoded, "base64").toString("utf8"));
    return [];
  } catch {
    return [invalid(`data[${key}]`, "<secret contents redacted>", "invalid JSON")];
  }
}

function validateKeys(path: string, data: Readonly<Record<string, string>>): FieldError[] {
  const errors: FieldError[] = [];
  for (const key of Object.keys(data)) {
    for (const problem of dataKeyProblems(key)) errors.push(invalid(`${path}[${key}]`, key, problem));
    if (errors.length > MAX_REPORTED_ERRORS) break;
  }
  return errors;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function validateBase64(path: string, data: Readonly<Record<string, string>>): FieldError[] {
  return Object.entries(data)
    .filter(([, value]) => !BASE64.test(value))
    .map(([key]) => invalid(`${path}[${key}]`, "<contents redacted>", "illegal base64 data"));
}

function decodedBytes(data: Readonly<Record<string, string>>): number {
  return Object.values(data).reduce((sum, it) => sum + Buffer.byteLength(it, "base64"), 0);
}

function validateImmutable(object: ApiObject, old: ApiObject, fields: readonly string[]): FieldError[] {
  if (old["immutable"] !== true) return [];
  const detail = "field is immutable when `immutable` is set";
  const errors = fields.filter((it) => !sameJson(object[it], old[it])).map((it) => notAllowed(it, detail));
  return object["immutable"] === true ? errors : [notAllowed("immutable", detail), ...errors];
}
