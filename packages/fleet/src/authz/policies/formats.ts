import type { Validation } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import {
  MAX_AFFINITY_SECONDS,
  MAX_DOORS,
  MAX_EXPORTED_METADATA,
  MAX_INGRESS,
  MAX_TEXT,
  MAX_WEIGHT,
  TRAFFIC_DISTRIBUTIONS,
} from "#domain/export-problem.ts";
import { MAX_SLICE_WEIGHT } from "#domain/global-service.ts";
import { MAX_PORTS, PROTOCOLS } from "#domain/slice.ts";
import { isLabel, quoted } from "./cel.ts";

/** `findExportFormatProblem` and `findEndpointProblem` in CEL, but for what would cost too much there: names that repeat. */

const NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?";
const SUBDOMAIN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
/** Source of the lengths: 63 for a name, 253 for its prefix. */
export function isQualified(text: string): string {
  return `(${text}.matches(${quoted(`^(${SUBDOMAIN}/)?${NAME}$`)}) && ${text}.size() <= 317 && ${text}.split("/")[${text}.split("/").size() - 1].size() <= 63 && ${text}.split("/")[0].size() <= 253)`;
}
export function isLabelValue(text: string): string {
  return `(${text}.size() <= 63 && ${text}.matches(${quoted(`^(${NAME})?$`)}))`;
}
export function isSubdomain(text: string): string {
  return `(${text}.size() <= 253 && ${text}.matches(${quoted(`^${SUBDOMAIN}$`)}))`;
}
function isPortName(text: string): string {
  return `(${text}.size() <= 15 && ${text}.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$") && ${text}.matches("[a-z]") && !${text}.contains("--"))`;
}
function isWithin(value: string, min: number, max: number): string {
  return `(${value} >= ${min} && ${value} <= ${max})`;
}
/** Says nothing where a field is absent. */
function each(list: string, rule: (it: string) => string): string {
  return `(!has(${list}) || ${list}.all(it, ${rule("it")}))`;
}
function optional(field: string, rule: (it: string) => string): string {
  return `(!has(${field}) || ${rule(field)})`;
}
function oneOf(text: string, values: readonly string[]): string {
  return `${text} in [${values.map((it) => quoted(it)).join(", ")}]`;
}

/** Ports of a Service and of a slice have these in common. */
function portRules(list: string): Validation[] {
  const rule = (field: string, of: (it: string) => string): string =>
    each(list, (it) => optional(`${it}.${field}`, of));
  return [
    {
      expression: `!has(${list}) || ${list}.size() <= ${MAX_PORTS}`,
      message: `spec.ports: at most ${MAX_PORTS} are allowed`,
    },
    {
      expression: rule("name", (it) => `(${it} == "" || ${isLabel(it)})`),
      message: "spec.ports[].name must be a DNS label (RFC 1123)",
    },
    {
      expression: rule("protocol", (it) => oneOf(it, PROTOCOLS)),
      message: `spec.ports[].protocol must be one of ${PROTOCOLS.join(", ")}`,
    },
    {
      expression: rule("port", (it) => isWithin(it, 1, 65_535)),
      message: "spec.ports[].port must be 1 to 65535",
    },
    {
      expression: rule("appProtocol", isQualified),
      message: "spec.ports[].appProtocol must be a qualified name",
    },
  ];
}

const SPEC = "object.spec";
const PORTS = `${SPEC}.ports`;
const DOORS = `${SPEC}.doors`;

export const EXPORT_FORMATS: readonly Validation[] = [
  ...portRules(PORTS),
  {
    expression: each(PORTS, (it) => `(${it}.?name.orValue("") != "" || ${PORTS}.size() < 2)`),
    message: "spec.ports[].name is required if there are several ports",
  },
  {
    expression: each(PORTS, (it) =>
      optional(
        `${it}.targetPort`,
        (target) =>
          `(type(${target}) == int ? ${isWithin(`int(${target})`, 1, 65_535)} : ${isPortName(`string(${target})`)})`,
      ),
    ),
    message: "spec.ports[].targetPort must be 1 to 65535, or the name of a port",
  },
  {
    expression: `!has(${DOORS}) || ${DOORS}.size() <= ${MAX_DOORS}`,
    message: `spec.doors: at most ${MAX_DOORS} are allowed`,
  },
  {
    expression: each(
      DOORS,
      (it) =>
        `((!has(${it}.exportedLabels) ? 0 : ${sizeOf(`${it}.exportedLabels`)}) + (!has(${it}.exportedAnnotations) ? 0 : ${sizeOf(`${it}.exportedAnnotations`)})) <= ${MAX_EXPORTED_METADATA}`,
    ),
    message: `spec.doors[].exportedLabels and exportedAnnotations: at most ${MAX_EXPORTED_METADATA} characters are allowed`,
  },
  {
    expression: each(DOORS, (it) =>
      optional(
        `${it}.exportedLabels`,
        (labels) => `${labels}.all(k, ${isQualified("k")} && ${isLabelValue(`${labels}[k]`)})`,
      ),
    ),
    message: "spec.doors[].exportedLabels: keys and values must be valid label keys and values",
  },
  {
    expression: each(DOORS, (it) =>
      optional(
        `${it}.exportedAnnotations`,
        (annotations) => `${annotations}.all(k, ${isQualified("k.lowerAscii()")})`,
      ),
    ),
    message: "spec.doors[].exportedAnnotations: keys must be valid annotation keys",
  },
  {
    expression: optional(`${SPEC}.weight`, (it) => isWithin(it, 0, MAX_WEIGHT)),
    message: `spec.weight must be 0 to ${MAX_WEIGHT}`,
  },
  {
    expression: `!has(${SPEC}.sessionAffinityConfig) || !has(${SPEC}.sessionAffinityConfig.clientIP) || ${optional(`${SPEC}.sessionAffinityConfig.clientIP.timeoutSeconds`, (it) => isWithin(it, 1, MAX_AFFINITY_SECONDS))}`,
    message: `spec.sessionAffinityConfig.clientIP.timeoutSeconds must be 1 to ${MAX_AFFINITY_SECONDS}`,
  },
  {
    expression: optional(`${SPEC}.trafficDistribution`, (it) => oneOf(it, TRAFFIC_DISTRIBUTIONS)),
    message: `spec.trafficDistribution must be one of ${TRAFFIC_DISTRIBUTIONS.join(", ")}`,
  },
  {
    expression: optional(
      `${SPEC}.ipFamilies`,
      (it) => `(${it}.size() <= 2 && ${it}.all(one, ${it}.exists_one(other, other == one)))`,
    ),
    message: "spec.ipFamilies must name each family once",
  },
  {
    expression: optional(
      `${SPEC}.loadBalancerIngress`,
      (it) =>
        `(${it}.size() <= ${MAX_INGRESS} && ${it}.all(one, ${["ip", "hostname"].map((field) => optional(`one.${field}`, isShort)).join(" && ")}))`,
    ),
    message: `spec.loadBalancerIngress: at most ${MAX_INGRESS} are allowed, each of at most ${MAX_TEXT} characters`,
  },
  {
    expression: [
      ...["type", "publicIPResourceID"].map((it) => `${SPEC}.${it}`),
      ...["apiVersion", "kind", "uid", "resourceVersion"].map((it) => `${SPEC}.serviceReference.${it}`),
    ]
      .map((it) => optional(it, isShort))
      .join(" && "),
    message: `spec.type, spec.publicIPResourceID and the fields of spec.serviceReference: at most ${MAX_TEXT} characters are allowed`,
  },
];

export const SLICE_FORMATS: readonly Validation[] = [
  ...portRules(PORTS),
  {
    expression: optional(`${SPEC}.weight`, (it) => isWithin(it, 0, MAX_SLICE_WEIGHT)),
    message: `spec.weight must be 0 to ${MAX_SLICE_WEIGHT}`,
  },
  {
    expression: `${SPEC}.endpoints.all(e, ${optional("e.hostname", (it) => `(${isLabel(it)})`)} && ${optional("e.nodeName", isSubdomain)} && ${optional("e.zone", isLabelValue)})`,
    message: "spec.endpoints[]: hostname must be a DNS label, nodeName a node name, zone a label value",
  },
];

function isShort(text: string): string {
  return `${text}.size() <= ${MAX_TEXT}`;
}

function sizeOf(map: string): string {
  return `${map}.map(k, k.size() + ${map}[k].size()).sum()`;
}
