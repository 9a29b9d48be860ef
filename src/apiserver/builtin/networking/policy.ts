import { tryParsePrefix, containsPrefix } from "#netaddr/prefix.ts";
import type { ApiObject, Strategy } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import { invalid, notAllowed, required, unlessInRange, unlessOneOf } from "../field-errors.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  stringsAt,
  textAt,
} from "../fields.ts";
import { validateLabelSelector } from "../labels.ts";
import { validatePortReference } from "../service/validate.ts";

/** Source: k8s.io/kubernetes, pkg/apis/networking/validation, `ValidateNetworkPolicy`. */

export const networkPolicyStrategy: Partial<Strategy> = {
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    for (const rule of [...itemsAt(spec, "ingress"), ...itemsAt(spec, "egress")]) {
      for (const port of itemsAt(rule, "ports")) setDefault(port, "protocol", "TCP");
    }
    if (stringsAt(spec, "policyTypes").length > 0) return;
    spec["policyTypes"] = itemsAt(spec, "egress").length > 0 ? ["Ingress", "Egress"] : ["Ingress"];
  },
  validateCreate: validateNetworkPolicy,
  validateUpdate: validateNetworkPolicy,
};

function validateNetworkPolicy(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const rules = [
    ...itemsAt(spec, "ingress").map((it, at) => [it, "from", `spec.ingress[${at}]`] as const),
    ...itemsAt(spec, "egress").map((it, at) => [it, "to", `spec.egress[${at}]`] as const),
  ];
  const types = stringsAt(spec, "policyTypes");
  return [
    ...validateLabelSelector(fieldsAt(spec, "podSelector"), "spec.podSelector"),
    ...rules.flatMap(([rule, peers, path]) => [
      ...itemsAt(rule, "ports").flatMap((it, at) => validatePolicyPort(it, `${path}.ports[${at}]`)),
      ...itemsAt(rule, peers).flatMap((it, at) => validatePeer(it, `${path}.${peers}[${at}]`)),
    ]),
    ...types.flatMap((it, at) => unlessOneOf(`spec.policyTypes[${at}]`, it, ["Egress", "Ingress"])),
  ];
}

function validatePolicyPort(port: Fields, path: string): FieldError[] {
  const errors = unlessOneOf(`${path}.protocol`, port["protocol"], ["SCTP", "TCP", "UDP"]);
  const first = port["port"];
  const last = numberAt(port, "endPort");
  errors.push(...validatePortReference(`${path}.port`, first));
  if (last === undefined) return errors;
  if (first === undefined) {
    errors.push(required(`${path}.port`, "must be specified when `endPort` is specified"));
  } else if (typeof first === "string") {
    errors.push(notAllowed(`${path}.endPort`, "may not be specified when `port` is non-numeric"));
  } else if (typeof first === "number" && last < first) {
    errors.push(invalid(`${path}.endPort`, last, "must be greater than or equal to `port`"));
  }
  return [...errors, ...unlessInRange(`${path}.endPort`, last, 1, 65_535)];
}

function validatePeer(peer: Fields, path: string): FieldError[] {
  const block = fieldsAt(peer, "ipBlock");
  const selectors = ["podSelector", "namespaceSelector"].filter((it) => fieldsAt(peer, it) !== undefined);
  const errors = selectors.flatMap((it) => validateLabelSelector(fieldsAt(peer, it), `${path}.${it}`));
  if (block === undefined && selectors.length === 0) return [required(path, "must specify a peer")];
  if (block === undefined) return errors;
  if (selectors.length > 0) {
    return [...errors, notAllowed(path, "may not specify both ipBlock and another peer")];
  }
  return validateBlock(block, `${path}.ipBlock`);
}

function validateBlock(block: Fields, path: string): FieldError[] {
  const text = textAt(block, "cidr");
  if (text === "") return [required(`${path}.cidr`)];
  const detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
  const cidr = tryParsePrefix(text, { hostBits: "clear" });
  if (cidr === undefined) return [invalid(`${path}.cidr`, text, detail)];
  return stringsAt(block, "except").flatMap((it, at) => {
    const except = tryParsePrefix(it, { hostBits: "clear" });
    if (except === undefined) return [invalid(`${path}.except[${at}]`, it, detail)];
    if (containsPrefix(cidr, except) && except.length > cidr.length) return [];
    return [invalid(`${path}.except[${at}]`, it, "must be a strict subset of `cidr`")];
  });
}
