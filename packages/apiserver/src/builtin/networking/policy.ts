import { containsPrefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { prefix } from "../addresses.ts";
import { invalid, notAllowed, required } from "#values/field-errors.ts";
import {
  ensureFields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { labelSelector } from "../labels.ts";
import { portReference } from "../names.ts";
import { all, between, each, fields, oneOf, present, type Rule, whole } from "../rules.ts";

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

const portRange: Rule = whole((of, path) => {
  const first = of["port"];
  const last = numberAt(of, "endPort");
  const at = `${path}.endPort`;
  if (last === undefined) return [];
  if (first === undefined) return [invalid(at, last, "may not be specified when `port` is not specified")];
  if (typeof first === "string")
    return [invalid(at, last, "may not be specified when `port` is non-numeric")];
  const isBelow = typeof first === "number" && last < first;
  return [
    ...(isBelow ? [invalid(at, last, "must be greater than or equal to `port`")] : []),
    ...between(1, 65_535)(last, at),
  ];
});

const policyPort: Rule = all(
  fields({ protocol: present(oneOf("TCP", "UDP", "SCTP")), port: present(portReference) }),
  portRange,
);

const block: Rule = whole((of, path) => {
  const text = textAt(of, "cidr");
  if (text === "") return [required(`${path}.cidr`)];
  const errors = [...prefix(text, `${path}.cidr`)];
  return [
    ...errors,
    ...stringsAt(of, "except").flatMap((it, at) => exception(text, it, `${path}.except[${at}]`)),
  ];
});

function exception(text: string, except: string, path: string): readonly FieldError[] {
  const inner = tryParsePrefix(except, { hostBits: "clear" });
  const outer = tryParsePrefix(text, { hostBits: "clear" });
  if (inner === undefined) return prefix(except, path);
  if (outer === undefined || (containsPrefix(outer, inner) && inner.length > outer.length)) return [];
  return [invalid(path, except, "must be a strict subset of `cidr`")];
}

const peer: Rule = whole((of, path) => {
  const selectors = ["podSelector", "namespaceSelector"].filter((it) => fieldsAt(of, it) !== undefined);
  const errors = selectors.flatMap((it) => labelSelector(of[it], `${path}.${it}`));
  const ipBlock = fieldsAt(of, "ipBlock");
  if (ipBlock !== undefined) errors.push(...block(ipBlock, `${path}.ipBlock`));
  if (ipBlock !== undefined && selectors.length > 0) {
    return [...errors, notAllowed(path, "may not specify both ipBlock and another peer")];
  }
  const isEmpty = ipBlock === undefined && selectors.length === 0;
  return isEmpty ? [required(path, "must specify a peer"), ...errors] : errors;
});

const spec: Rule = fields({
  podSelector: labelSelector,
  ingress: each(fields({ ports: each(policyPort), from: each(peer) })),
  egress: each(fields({ ports: each(policyPort), to: each(peer) })),
  policyTypes: (value, path) => policyTypes(stringsAt({ value }, "value"), path),
});

function policyTypes(types: readonly string[], path: string): readonly FieldError[] {
  if (types.length > 2) return [invalid(path, types, "may not specify more than two policyTypes")];
  return each(oneOf("Ingress", "Egress"))(types, path);
}

function validateNetworkPolicy(object: ApiObject): readonly FieldError[] {
  return spec(object["spec"], "spec");
}
