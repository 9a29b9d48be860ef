import { checkDnsLabel, checkSubdomain } from "../../registry/names.ts";
import type { FieldError } from "../../status.ts";
import { invalid, required, unlessInRange, unlessNonNegative, unlessOneOf } from "../field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringAt, stringMapAt, textAt } from "../fields.ts";
import { validateLabels } from "../labels.ts";
import { validateContainers } from "./validate-container.ts";
import { validateVolumes } from "./validate-volume.ts";
import type { NameCheck } from "../names.ts";

/** Source: k8s.io/kubernetes, pkg/apis/core/validation, `ValidatePodSpec`. */

export function validatePodSpec(spec: Fields | undefined, path: string): FieldError[] {
  if (spec === undefined) return [required(`${path}.containers`)];
  const volumes = new Set(itemsAt(spec, "volumes").map((it) => textAt(it, "name")));
  const errors = [
    ...validateVolumes(itemsAt(spec, "volumes"), `${path}.volumes`),
    ...validateContainers(spec, path, volumes),
    ...unlessOneOf(`${path}.restartPolicy`, spec["restartPolicy"], ["Always", "Never", "OnFailure"]),
    ...validateDns(spec, path),
    ...validateLabels(stringMapAt(spec, "nodeSelector"), `${path}.nodeSelector`),
    ...unlessNonNegative(`${path}.terminationGracePeriodSeconds`, spec["terminationGracePeriodSeconds"]),
    ...unlessInRange(`${path}.activeDeadlineSeconds`, spec["activeDeadlineSeconds"], 1, 2 ** 31 - 1),
    ...validateTolerations(itemsAt(spec, "tolerations"), `${path}.tolerations`),
  ];
  const named: readonly (readonly [string, NameCheck])[] = [
    ["serviceAccountName", checkSubdomain],
    ["nodeName", checkSubdomain],
    ["hostname", checkDnsLabel],
    ["subdomain", checkDnsLabel],
  ];
  for (const [field, check] of named) {
    const name = textAt(spec, field);
    const problem = name === "" ? undefined : check(name);
    if (problem !== undefined) errors.push(invalid(`${path}.${field}`, name, problem));
  }
  return errors;
}

const DNS_POLICIES = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
const MAX_NAMESERVERS = 3;

function validateDns(spec: Fields, path: string): FieldError[] {
  const policy = spec["dnsPolicy"];
  const servers = fieldsAt(spec, "dnsConfig")?.["nameservers"];
  const count = Array.isArray(servers) ? servers.length : 0;
  const errors = unlessOneOf(`${path}.dnsPolicy`, policy, DNS_POLICIES);
  if (policy === "None" && count === 0) {
    const detail = `must provide at least one DNS nameserver when \`dnsPolicy\` is None`;
    errors.push(required(`${path}.dnsConfig.nameservers`, detail));
  }
  if (count > MAX_NAMESERVERS) {
    const detail = `must not have more than ${MAX_NAMESERVERS} nameservers`;
    errors.push(invalid(`${path}.dnsConfig.nameservers`, servers, detail));
  }
  return errors;
}

function validateTolerations(tolerations: readonly Fields[], path: string): FieldError[] {
  return tolerations.flatMap((it, index) => {
    const at = `${path}[${index}]`;
    const operator = textAt(it, "operator");
    const errors = unlessOneOf(`${at}.effect`, stringAt(it, "effect") || undefined, [
      "NoExecute",
      "NoSchedule",
      "PreferNoSchedule",
    ]);
    if (textAt(it, "key") === "" && operator !== "Exists") {
      const detail =
        'operator must be Exists when `key` is empty, which means "match all values and all keys"';
      errors.push(invalid(`${at}.operator`, operator, detail));
    }
    if (operator === "Exists" && textAt(it, "value") !== "") {
      const detail = "value must be empty when `operator` is 'Exists'";
      errors.push(invalid(`${at}.operator`, it["value"], detail));
    }
    if (numberAt(it, "tolerationSeconds") !== undefined && textAt(it, "effect") !== "NoExecute") {
      const detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
      errors.push(invalid(`${at}.effect`, textAt(it, "effect"), detail));
    }
    return errors;
  });
}
