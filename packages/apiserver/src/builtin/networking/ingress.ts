import { checkPathSegment, dnsLabelProblems, subdomainProblems } from "#values/names.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, notSupported, required, tooLong } from "#values/field-errors.ts";
import {
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  stringAt,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { dnsLabel, domainPrefixedPath, portNameProblems, subdomain, wildcardProblems } from "../names.ts";
import { between, fields, filled, immutable, optional, present, type Rule, text, whole } from "../rules.ts";

/** Source: k8s.io/kubernetes, pkg/apis/networking/validation. */

export const ingressStrategy: Partial<Strategy> = {
  validateCreate: (object) => [...validateIngress(object), ...sameClass(object)],
  validateUpdate: validateIngress,
};

function validateIngress(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const rules = itemsAt(spec, "rules");
  const backend = fieldsAt(spec, "defaultBackend");
  const isEmpty = rules.length === 0 && backend === undefined;
  return [
    ...itemsAt(spec, "tls").flatMap((it, at) => validateTls(it, `spec.tls[${at}]`)),
    ...(isEmpty ? [invalid("spec", spec, "either `defaultBackend` or `rules` must be specified")] : []),
    ...(backend === undefined ? [] : validateBackend(backend, "spec.defaultBackend")),
    ...rules.flatMap((it, at) => validateRule(it, `spec.rules[${at}]`)),
    ...fields({ ingressClassName: present(subdomain) })(spec, "spec"),
  ];
}

/** How the class was named before it had a field. */
const CLASS_ANNOTATION = "kubernetes.io/ingress.class";

function sameClass({ metadata, ...object }: ApiObject): FieldError[] {
  const annotated = metadata.annotations?.[CLASS_ANNOTATION];
  const named = stringAt(fieldsAt(object, "spec"), "ingressClassName");
  if (annotated === undefined || named === undefined || annotated === named) return [];
  const detail = "must match `ingressClassName` when both are specified";
  return [invalid(`annotations.${CLASS_ANNOTATION}`, annotated, detail)];
}

export function ingressWarnings(object: ApiObject, old: ApiObject | undefined): readonly string[] {
  const annotated = object.metadata.annotations?.[CLASS_ANNOTATION];
  const named = fieldsAt(object, "spec")?.["ingressClassName"];
  if (old !== undefined || annotated === undefined || named !== undefined) return [];
  return [`annotation "${CLASS_ANNOTATION}" is deprecated, please use 'spec.ingressClassName' instead`];
}

function hostProblems(host: string): readonly string[] {
  return host.includes("*") ? wildcardProblems(host) : subdomainProblems(host);
}

function validateTls(tls: Fields, path: string): readonly FieldError[] {
  const hosts = stringsAt(tls, "hosts");
  return [
    ...hosts.flatMap((host, at) => text(hostProblems)(host, `${path}.hosts[${at}]`)),
    ...fields({ secretName: optional(subdomain) })(tls, path),
  ];
}

function validateRule(rule: Fields, path: string): FieldError[] {
  const host = textAt(rule, "host");
  const errors: FieldError[] = [];
  if (tryParseAddress(host) !== undefined) {
    errors.push(invalid(`${path}.host`, host, "must be a DNS name, not an IP address"));
  }
  if (host !== "") errors.push(...text(hostProblems)(host, `${path}.host`));
  const http = fieldsAt(rule, "http");
  if (http === undefined) return errors;
  const paths = itemsAt(http, "paths");
  if (paths.length === 0) return [...errors, required(`${path}.http.paths`)];
  return [...errors, ...paths.flatMap((it, at) => validatePath(it, `${path}.http.paths[${at}]`))];
}

const PATH_TYPES = ["Exact", "ImplementationSpecific", "Prefix"];
/** Sequences that paths of type `Exact` and `Prefix` must not contain, because they are ambiguous. */
const AMBIGUOUS = ["//", "/./", "/../", "%2f", "%2F"];
const AMBIGUOUS_ENDS = ["/..", "/."];

function validatePath(rule: Fields, path: string): FieldError[] {
  const type = stringAt(rule, "pathType");
  const url = textAt(rule, "path");
  if (type === undefined) return [required(`${path}.pathType`, "pathType must be specified")];
  return [
    ...validatePathForm(url, type, path),
    ...validateBackend(fieldsAt(rule, "backend") ?? {}, `${path}.backend`),
  ];
}

function validatePathForm(url: string, type: string, path: string): FieldError[] {
  const at = `${path}.path`;
  if (type === "ImplementationSpecific") {
    return url === "" || url.startsWith("/") ? [] : [invalid(at, url, "must be an absolute path")];
  }
  if (!PATH_TYPES.includes(type)) return [notSupported(`${path}.pathType`, type, PATH_TYPES)];
  return [
    ...(url.startsWith("/") ? [] : [invalid(at, url, "must be an absolute path")]),
    ...AMBIGUOUS.filter((it) => url.includes(it)).map((it) => invalid(at, url, `must not contain '${it}'`)),
    ...AMBIGUOUS_ENDS.filter((it) => url.endsWith(it)).map((it) =>
      invalid(at, url, `cannot end with '${it}'`),
    ),
  ];
}

const segment: Rule = filled("", (value, path) => {
  const problem = checkPathSegment(String(value));
  return problem === undefined ? [] : [invalid(path, value, problem)];
});

const resource: Rule = fields({ apiGroup: optional(subdomain), kind: segment, name: segment });

function validateBackend(backend: Fields, path: string): readonly FieldError[] {
  const service = fieldsAt(backend, "service");
  const other = fieldsAt(backend, "resource");
  if (service !== undefined && other !== undefined) {
    return [invalid(path, "", "cannot set both resource and service backends")];
  }
  if (other !== undefined) return resource(other, `${path}.resource`);
  if (service === undefined) return [invalid(path, "", "resource or service backend is required")];
  return validateServiceBackend(service, path);
}

function validateServiceBackend(service: Fields, path: string): FieldError[] {
  const at = `${path}.service`;
  const port = fieldsAt(service, "port");
  const name = textAt(port, "name");
  const number = numberAt(port, "number") ?? 0;
  const errors = [...fields({ name: filled("", text(dnsLabelProblems)) })(service, at)];
  if (name !== "" && number !== 0) {
    return [...errors, invalid(path, "", "cannot set both port name & port number")];
  }
  if (name !== "") return [...errors, ...text(portNameProblems)(name, `${at}.port.name`)];
  if (number !== 0) return [...errors, ...between(1, 65_535)(number, `${at}.port.number`)];
  return [...errors, required(path, "port name or number is required")];
}

const MAX_CONTROLLER_LENGTH = 250;

const parameters: Rule = whole((of, path) => {
  const scope = stringAt(of, "scope");
  const namespace = stringAt(of, "namespace");
  const at = `${path}.namespace`;
  const errors = [...resource(of, path)];
  if (scope === undefined) return [...errors, required(`${path}.scope`)];
  if (!["Cluster", "Namespace"].includes(scope)) {
    return [...errors, notSupported(`${path}.scope`, scope, ["Cluster", "Namespace"])];
  }
  if (scope === "Cluster") {
    if (namespace === undefined) return errors;
    return [...errors, notAllowed(at, "`parameters.scope` is set to 'Cluster'")];
  }
  if (namespace === undefined) return [...errors, required(at, "`parameters.scope` is set to 'Namespace'")];
  return [...errors, ...dnsLabel(namespace, at)];
});

const ingressClass: Rule = whole((spec, path) => {
  const controller = textAt(spec, "controller");
  const at = `${path}.controller`;
  const isLong = controller.length > MAX_CONTROLLER_LENGTH;
  const given = fieldsAt(spec, "parameters");
  return [
    ...(isLong ? [tooLong(at, MAX_CONTROLLER_LENGTH)] : []),
    ...domainPrefixedPath(controller, at),
    ...(given === undefined ? [] : parameters(given, `${path}.parameters`)),
  ];
});

export const ingressClassStrategy: Partial<Strategy> = {
  applyDefaults: (object) => {
    const given = fieldsAt(fieldsAt(object, "spec"), "parameters");
    if (given !== undefined) setDefault(given, "scope", "Cluster");
  },
  validateCreate: (object) => ingressClass(object["spec"], "spec"),
  validateUpdate: (object, old) => [
    ...ingressClass(object["spec"], "spec"),
    ...immutable(fieldsAt(object, "spec"), fieldsAt(old, "spec"), "spec.", "controller"),
  ],
};
