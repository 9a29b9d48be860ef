import { checkSubdomain } from "../../registry/names.ts";
import type { ApiObject, Strategy } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import { IMMUTABLE, invalid, required, unlessOneOf } from "../field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, textAt } from "../fields.ts";

/** Source: k8s.io/kubernetes, pkg/apis/networking/validation, `ValidateIngressCreate`. */

export const ingressStrategy: Partial<Strategy> = {
  validateCreate: validateIngress,
  validateUpdate: validateIngress,
};

function validateIngress(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const rules = itemsAt(spec, "rules");
  const backend = fieldsAt(spec, "defaultBackend");
  const errors = rules.flatMap((it, at) => validateRule(it, `spec.rules[${at}]`));
  if (rules.length === 0 && backend === undefined) {
    errors.push(invalid("spec", spec, "either `defaultBackend` or `rules` must be specified"));
  }
  return backend === undefined ? errors : [...errors, ...validateBackend(backend, "spec.defaultBackend")];
}

function validateRule(rule: Fields, path: string): FieldError[] {
  const host = textAt(rule, "host");
  const bare = host.startsWith("*.") ? host.slice(2) : host;
  const problem = bare === "" ? undefined : checkSubdomain(bare);
  const errors = problem === undefined ? [] : [invalid(`${path}.host`, host, problem)];
  const http = fieldsAt(rule, "http");
  if (http === undefined) return errors;
  const paths = itemsAt(http, "paths");
  if (paths.length === 0) return [...errors, required(`${path}.http.paths`)];
  return [...errors, ...paths.flatMap((it, at) => validatePath(it, `${path}.http.paths[${at}]`))];
}

function validatePath(rule: Fields, path: string): FieldError[] {
  const type = textAt(rule, "pathType");
  const text = textAt(rule, "path");
  const errors =
    type === ""
      ? [required(`${path}.pathType`, "pathType must be specified")]
      : unlessOneOf(`${path}.pathType`, type, ["Exact", "ImplementationSpecific", "Prefix"]);
  if ((type === "Exact" || type === "Prefix") && !text.startsWith("/")) {
    errors.push(invalid(`${path}.path`, text, "must be an absolute path"));
  }
  const backend = fieldsAt(rule, "backend");
  if (backend === undefined) return [...errors, required(`${path}.backend`)];
  return [...errors, ...validateBackend(backend, `${path}.backend`)];
}

function validateBackend(backend: Fields, path: string): FieldError[] {
  const service = fieldsAt(backend, "service");
  const hasResource = fieldsAt(backend, "resource") !== undefined;
  if (service === undefined) {
    return hasResource ? [] : [required(path, "resource or service backend is required")];
  }
  if (hasResource) return [invalid(path, "", "cannot set both resource and service backends")];
  const errors: FieldError[] = [];
  if (textAt(service, "name") === "") errors.push(required(`${path}.service.name`));
  const port = fieldsAt(service, "port");
  const hasPort = textAt(port, "name") !== "" || (numberAt(port, "number") ?? 0) !== 0;
  if (!hasPort) errors.push(required(`${path}.service.port`, "port name or number is required"));
  return errors;
}

export const ingressClassStrategy: Partial<Strategy> = {
  validateUpdate: (object, old) => {
    const controller = textAt(fieldsAt(object, "spec"), "controller");
    if (controller === textAt(fieldsAt(old, "spec"), "controller")) return [];
    return [invalid("spec.controller", controller, IMMUTABLE)];
  },
};
