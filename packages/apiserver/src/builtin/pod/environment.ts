import type { FieldError } from "#status.ts";
import { invalid, notSupported, required } from "#values/field-errors.ts";
import { fieldsAt, textAt } from "@fairlead/base/fields.ts";
import { qualifiedName } from "../labels.ts";
import { dataKeyProblems, environmentNameProblems } from "../names.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { all, each, fields, filled, optional, type Rule, text, whole } from "../rules.ts";

/** Environments of containers, and what of a pod they may show. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const ENVIRONMENT_FIELDS = [
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
  "spec.nodeName",
  "spec.serviceAccountName",
  "status.hostIP",
  "status.hostIPs",
  "status.podIP",
  "status.podIPs",
];
const VOLUME_FIELDS = [
  "metadata.annotations",
  "metadata.labels",
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
];
/** Fields of pods that have a name in selectors; others cannot be spoken of at all. */
const KNOWN_FIELDS = new Set([
  ...ENVIRONMENT_FIELDS,
  ...VOLUME_FIELDS,
  "spec.hostname",
  "spec.restartPolicy",
  "spec.schedulerName",
  "status.phase",
]);
const RESOURCES = ["cpu", "ephemeral-storage", "memory"];
const RESOURCE_FIELDS = ["limits", "requests"].flatMap((it) => RESOURCES.map((one) => `${it}.${one}`));

function fieldReference(supported: readonly string[]): Rule {
  return whole((of, path) => {
    const name = textAt(of, "fieldPath");
    const at = `${path}.fieldPath`;
    const version = textAt(of, "apiVersion");
    if (version === "") return [required(`${path}.apiVersion`)];
    if (name === "") return [required(at)];
    const subscript = /^(.*)\['(.*)'\]$/.exec(name);
    const bare = subscript?.[1] ?? name;
    const unknown = unknownField(bare, version);
    if (unknown !== undefined) return [invalid(at, name, `error converting fieldPath: ${unknown}`)];
    if (subscript === null) return supported.includes(name) ? [] : [notSupported(at, name, supported)];
    if (bare === "metadata.annotations") return qualifiedName((subscript[2] ?? "").toLowerCase(), path);
    if (bare === "metadata.labels") return qualifiedName(subscript[2] ?? "", path);
    return [invalid(path, bare, "does not support subscript")];
  });
}

function unknownField(name: string, version: string): string | undefined {
  if (version !== "v1") return `unsupported pod version: ${version}`;
  return KNOWN_FIELDS.has(name) ? undefined : `field label not supported: ${name}`;
}

function resourceReference(needsContainer: boolean): Rule {
  return whole((of, path) => {
    const resource = textAt(of, "resource");
    const isHuge = /^(limits|requests)\.hugepages-/.test(resource);
    const errors: FieldError[] = [];
    if (needsContainer && textAt(of, "containerName") === "") errors.push(required(`${path}.containerName`));
    else if (resource === "") errors.push(required(`${path}.resource`));
    else if (!isHuge && !RESOURCE_FIELDS.includes(resource)) {
      errors.push(notSupported(`${path}.resource`, resource, RESOURCE_FIELDS));
    }
    return [...errors, ...divisor(resource, of["divisor"], path)];
  });
}

const SIZES = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const SIZE_WORDS = `${SIZES.join(", ")} are supported with the`;
/** The divisors of a resource, by the first word of its name. */
const DIVISORS: Readonly<Record<string, { readonly values: readonly string[]; readonly words: string }>> = {
  cpu: { values: ["1m", "1"], words: "1m and 1 are supported with the cpu resource" },
  memory: { values: SIZES, words: `${SIZE_WORDS} memory resource` },
  ephemeral: { values: SIZES, words: `${SIZE_WORDS} local ephemeral storage resource` },
  hugepages: { values: SIZES, words: `${SIZE_WORDS} hugepages resource` },
};

function divisor(resource: string, value: unknown, path: string): FieldError[] {
  const size = parseQuantity(value) ?? 0n;
  const known = DIVISORS[/^(?:limits|requests)\.([a-z]+)/.exec(resource)?.[1] ?? ""];
  if (size === 0n || known === undefined || known.values.includes(String(value))) return [];
  return [invalid(`${path}.divisor`, resource, `only divisor's values ${known.words}`)];
}

const keyReference: Rule = fields({ name: filled(), key: filled("", text(dataKeyProblems)) });

const SOURCES: readonly (readonly [string, Rule])[] = [
  ["fieldRef", fieldReference(ENVIRONMENT_FIELDS)],
  ["resourceFieldRef", resourceReference(false)],
  ["configMapKeyRef", keyReference],
  ["secretKeyRef", keyReference],
];
const NO_SOURCE =
  "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";

const variable: Rule = all(
  fields({ name: filled("", text(environmentNameProblems)) }),
  whole((of, path) => {
    const source = fieldsAt(of, "valueFrom");
    const at = `${path}.valueFrom`;
    if (source === undefined) return [];
    const set = Object.keys(source).length;
    const errors = SOURCES.flatMap(([key, rule]) =>
      source[key] === undefined ? [] : rule(source[key], `${at}.${key}`),
    );
    if (set === 0) return [...errors, invalid(at, "", NO_SOURCE)];
    if (textAt(of, "value") !== "") {
      return [...errors, invalid(at, "", "may not be specified when `value` is not empty")];
    }
    return set === 1
      ? errors
      : [...errors, invalid(at, "", "may not have more than one field specified at a time")];
  }),
);

export const environment: Rule = each(variable);

/** Upstream reports errors of a source at the path of the list. */
export const environmentSources: Rule = (value, path) =>
  each(
    fields({ prefix: optional(text(environmentNameProblems)) }),
    whole((of, at) => {
      const set = ["configMapRef", "secretRef"].filter((it) => fieldsAt(of, it) !== undefined);
      const errors = set.flatMap((it) => fields({ name: filled() })(of[it], `${at}.${it}`));
      if (set.length === 1) return errors;
      const detail =
        set.length === 0
          ? "must specify one of: `configMapRef` or `secretRef`"
          : "may not have more than one field specified at a time";
      return [...errors, invalid(path, "", detail)];
    }),
  )(value, path);

/** An item of a volume that shows the pod's own fields. */
export const downwardItem = {
  field: fieldReference(VOLUME_FIELDS),
  resource: resourceReference(true),
};
