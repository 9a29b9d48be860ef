import { invalid as invalidValue } from "#values/field-errors.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ApiObject } from "#values/object.ts";
import { type FieldError, invalid } from "#status.ts";
import { byText } from "@fairlead/base/text.ts";
import { podLike, violatedRules } from "./pod-security-checks.ts";
import { enforcedPolicy, isLevel, LEVELS, PREFIX, strictness } from "./pod-security-policy.ts";

/**
 * PodSecurity's part in changes of namespaces: labels that cannot be read are refused, and pods that a stricter level would not admit are
 * reported. Source: k8s.io/pod-security-admission, `ValidateNamespace`.
 */

/** Pods of a namespace that are looked at. Source: pod-security-admission, `defaultNamespaceMaxPodsToCheck`. */
const MAX_PODS = 3000;

export function validateNamespace(attributes: Attributes): void {
  const { object, old, subresource } = attributes;
  if (object === undefined || subresource !== "") return;
  const errors = labelErrors(object);
  const before = old === undefined ? [] : labelErrors(old);
  if (errors.length > 0 && JSON.stringify(errors) !== JSON.stringify(before)) {
    throw invalid("", "Namespace", object.metadata.name, errors);
  }
  if (old === undefined) return;
  const [wanted, was] = [enforcedPolicy(object), enforcedPolicy(old)];
  if (wanted.text === was.text || wanted.level === "privileged") return;
  const isOfSameVersion = wanted.version === was.version;
  if (isOfSameVersion && strictness(wanted.level) <= strictness(was.level)) return;
  for (const it of violators(attributes, object.metadata.name, wanted)) attributes.warn(it);
}

function labelErrors({ metadata: { labels = {} } }: ApiObject): readonly FieldError[] {
  return ["enforce", "audit", "warn"].flatMap((mode) => {
    const [level, version] = [labels[`${PREFIX}${mode}`], labels[`${PREFIX}${mode}-version`]];
    const at = (label: string): string => `metadata.labels[${PREFIX}${label}]`;
    return [
      ...(level === undefined || isLevel(level)
        ? []
        : [invalidValue(at(mode), level, `must be one of ${LEVELS.join(", ")}`)]),
      ...(version === undefined || version === "latest" || /^v1\.(0|[1-9][0-9]{0,3})$/.test(version)
        ? []
        : [invalidValue(at(`${mode}-version`), version, 'must be "latest" or "v1.x"')]),
    ];
  });
}

function violators(
  { reader }: Attributes,
  namespace: string,
  { level, text }: { readonly level: string; readonly text: string },
): readonly string[] {
  const pods = [...reader.list("", "pods", namespace)];
  const byRules = new Map<string, string[]>();
  for (const pod of pods.slice(0, MAX_PODS)) {
    const rules = violatedRules(level, podLike(fieldsAt(pod, "metadata"), fieldsAt(pod, "spec") ?? {}));
    if (rules === undefined) continue;
    const names = byRules.get(rules);
    if (names === undefined) byRules.set(rules, [pod.metadata.name]);
    else names.push(pod.metadata.name);
  }
  if (byRules.size === 0) return [];
  const few =
    pods.length <= MAX_PODS
      ? []
      : [
          `new PodSecurity enforce level only checked against the first ${MAX_PODS} of ${pods.length} existing pods`,
        ];
  const what = `existing pods in namespace ${JSON.stringify(namespace)} violate the new PodSecurity enforce level ${JSON.stringify(text)}`;
  const each = [...byRules].map(([rules, names]) => `${firstAndOthers(names)}: ${rules}`);
  return [...few, what, ...each.toSorted(byText)];
}

function firstAndOthers(names: readonly string[]): string {
  const [first = ""] = names.toSorted(byText);
  const others = names.length - 1;
  if (others === 0) return first;
  return `${first} (and ${others} other ${others === 1 ? "pod" : "pods"})`;
}
