import { sameJson } from "#base/json.ts";
import { messageOf } from "#base/errors.ts";
import { isObject } from "#base/json.ts";
import { invalidValue } from "../registry/metadata.ts";
import { checkDnsLabel, checkSubdomain } from "../registry/names.ts";
import { checkStructural } from "../schema/structural.ts";
import type { FieldError } from "../status.ts";
import { parseJsonPath } from "./jsonpath.ts";
import { validateConversion } from "./validate-conversion.ts";
import { type Crd, type CrdNames, type CrdVersion, isEstablished } from "./types.ts";

/** Source: apiextensions-apiserver, pkg/apis/apiextensions/validation. */

const APPROVED = "api-approved.kubernetes.io";
const PROTECTED_GROUP = /(^|\.)(k8s\.io|kubernetes\.io)$/;
const COLUMN_TYPES = ["integer", "number", "string", "boolean", "date"];
const MAX_SELECTABLE_FIELDS = 8;

export function validateCrd(crd: Crd): FieldError[] {
  const shape = checkShape(crd);
  if (shape.length > 0) return shape;
  const { group, names, scope, versions, conversion } = crd.spec;
  return [
    ...unlessName(crd),
    ...unlessValid("spec.group", group, checkSubdomain),
    ...(group.includes(".")
      ? []
      : [invalidValue("spec.group", group, "should be a domain with at least one dot")]),
    ...validateNames(names),
    ...unlessOneOf("spec.scope", scope, ["Cluster", "Namespaced"]),
    ...validateVersions(versions),
    ...validateConversion({ ...conversion }),
    ...validateApproval(crd),
    ...(crd.spec.preserveUnknownFields === true
      ? [invalidValue("spec.preserveUnknownFields", true, "must be false")]
      : []),
  ];
}

export function validateCrdUpdate(crd: Crd, old: Crd): FieldError[] {
  const errors = validateCrd(crd);
  if (errors.length > 0) return errors;
  const { spec, status } = crd;
  const frozen: [string, unknown, unknown][] = [
    ["spec.group", spec.group, old.spec.group],
    ["spec.names.plural", spec.names.plural, old.spec.names.plural],
  ];
  if (isEstablished(old)) {
    frozen.push(
      ["spec.scope", spec.scope, old.spec.scope],
      ["spec.names.kind", spec.names.kind, old.spec.names.kind],
    );
  }
  const versions = new Set(spec.versions.map((it) => it.name));
  return [
    ...frozen
      .filter(([, now, then]) => now !== then)
      .map(([field, now]) => invalidValue(field, now, "field is immutable")),
    ...(status?.storedVersions ?? []).flatMap((version, at) =>
      versions.has(version)
        ? []
        : [
            invalidValue(
              `status.storedVersions[${at}]`,
              version,
              "missing from spec.versions; v1 objects may be stored in it",
            ),
          ],
    ),
  ];
}

/** Kinds of values that the rest relies on; the schema of CRDs has checked most of it. */
function checkShape({ spec }: { spec?: unknown }): FieldError[] {
  if (!isObject(spec)) return [required("spec")];
  const names = isObject(spec["names"]) ? spec["names"] : {};
  const texts: [string, unknown][] = [
    ["spec.group", spec["group"]],
    ["spec.scope", spec["scope"]],
    ["spec.names.plural", names["plural"]],
    ["spec.names.kind", names["kind"]],
  ];
  const errors = texts
    .filter(([, value]) => typeof value !== "string" || value === "")
    .map(([field]) => required(field));
  return [...errors, ...checkVersionShape(spec["versions"])];
}

function checkVersionShape(versions: unknown): FieldError[] {
  if (!Array.isArray(versions) || versions.length === 0) return [required("spec.versions")];
  const isNamed = (it: unknown): boolean => isObject(it) && typeof it["name"] === "string";
  return versions.every(isNamed) ? [] : [required("spec.versions[*].name")];
}

function required(field: string, why = ""): FieldError {
  return {
    type: "FieldValueRequired",
    field,
    message: why === "" ? "Required value" : `Required value: ${why}`,
  };
}

function unsupported(field: string, value: unknown, supported: readonly string[]): FieldError {
  const list = supported.map((it) => JSON.stringify(it)).join(", ");
  const message = `Unsupported value: ${JSON.stringify(value ?? "")}: supported values: ${list}`;
  return { type: "FieldValueNotSupported", field, message };
}

function unlessOneOf(field: string, value: unknown, supported: readonly string[]): FieldError[] {
  return supported.some((it) => it === value) ? [] : [unsupported(field, value, supported)];
}

function unlessValid(
  field: string,
  value: string,
  check: (text: string) => string | undefined,
): FieldError[] {
  const wrong = check(value);
  return wrong === undefined ? [] : [invalidValue(field, value, wrong)];
}

function unlessName({ metadata, spec }: Crd): FieldError[] {
  const expected = `${spec.names.plural}.${spec.group}`;
  return metadata.name === expected
    ? []
    : [invalidValue("metadata.name", metadata.name, `must be spec.names.plural+"."+spec.group`)];
}

function validateNames(names: CrdNames): FieldError[] {
  const { plural, singular, kind, listKind, shortNames = [], categories = [] } = names;
  const label = (field: string, value: string): FieldError[] =>
    unlessValid(`spec.names.${field}`, value, checkName);
  const kinds = (field: string, value: string): FieldError[] =>
    unlessValid(`spec.names.${field}`, value, (it) => checkName(it.toLowerCase()));
  return [
    ...label("plural", plural),
    ...(singular === undefined ? [] : label("singular", singular)),
    ...shortNames.flatMap((it, at) => label(`shortNames[${at}]`, it)),
    ...categories.flatMap((it, at) => label(`categories[${at}]`, it)),
    ...kinds("kind", kind),
    ...(listKind === undefined ? [] : kinds("listKind", listKind)),
    ...(kind === listKind
      ? [invalidValue("spec.names.listKind", listKind, "kind and listKind may not be the same")]
      : []),
  ];
}

/** DNS-1035: begins with a letter. */
function checkName(name: string): string | undefined {
  return checkDnsLabel(name) ?? (/^[a-z]/.test(name) ? undefined : "must start with an alphabetic character");
}

function validateVersions(versions: readonly CrdVersion[]): FieldError[] {
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  for (const [at, version] of versions.entries()) {
    const field = `spec.versions[${at}]`;
    if (seen.has(version.name)) {
      errors.push({
        type: "FieldValueDuplicate",
        field: `${field}.name`,
        message: `Duplicate value: ${JSON.stringify(version.name)}`,
      });
    }
    seen.add(version.name);
    errors.push(...validateVersion(version, field));
  }
  errors.push(...validateSchemas(versions));
  if (versions.filter((it) => it.storage).length !== 1) {
    errors.push(
      invalidValue("spec.versions", [...seen], "must have exactly one version marked as storage version"),
    );
  }
  return errors;
}

/** A schema that all versions share is looked at once, and named as if it stood outside of them. */
function validateSchemas(versions: readonly CrdVersion[]): FieldError[] {
  const [shared, ...others] = versions.map((it) => it.schema?.openAPIV3Schema);
  if (shared !== undefined && others.every((it) => sameJson(it, shared))) {
    return checkStructural(shared, "spec.validation.openAPIV3Schema");
  }
  return versions.flatMap(({ schema }, at) => {
    const field = `spec.versions[${at}].schema.openAPIV3Schema`;
    const { openAPIV3Schema: own } = schema ?? {};
    return own === undefined ? [required(field, "schemas are required")] : checkStructural(own, field);
  });
}

function validateVersion(version: CrdVersion, field: string): FieldError[] {
  return [
    ...unlessValid(`${field}.name`, version.name, checkName),
    ...(version.additionalPrinterColumns ?? []).flatMap((column, at) => {
      const at_ = `${field}.additionalPrinterColumns[${at}]`;
      return [
        ...((column.name ?? "") === "" ? [required(`${at_}.name`)] : []),
        ...unlessOneOf(`${at_}.type`, column.type, COLUMN_TYPES),
        ...unlessPath(`${at_}.jsonPath`, column.jsonPath),
      ];
    }),
    ...validateSelectable(version, field),
    ...validateScale(version, field),
  ];
}

function unlessPath(field: string, path: unknown): FieldError[] {
  if (typeof path !== "string" || path === "") return [required(field)];
  try {
    parseJsonPath(path);
    return [];
  } catch (error) {
    return [invalidValue(field, path, messageOf(error))];
  }
}

function validateSelectable({ selectableFields = [] }: CrdVersion, field: string): FieldError[] {
  const errors = selectableFields.flatMap(({ jsonPath }, at) =>
    unlessSimplePath(`${field}.selectableFields[${at}].jsonPath`, jsonPath),
  );
  if (selectableFields.length > MAX_SELECTABLE_FIELDS) {
    const message = `Too many: ${selectableFields.length}: must have at most ${MAX_SELECTABLE_FIELDS} items`;
    errors.push({ type: "FieldValueTooMany", field: `${field}.selectableFields`, message });
  }
  return errors;
}

function validateScale({ subresources }: CrdVersion, field: string): FieldError[] {
  const scale = subresources?.scale;
  if (scale === undefined) return [];
  const at = `${field}.subresources.scale`;
  return [
    ...unlessSimplePath(`${at}.specReplicasPath`, scale.specReplicasPath, ".spec."),
    ...unlessSimplePath(`${at}.statusReplicasPath`, scale.statusReplicasPath, ".status."),
    ...(scale.labelSelectorPath === undefined
      ? []
      : unlessSimplePath(`${at}.labelSelectorPath`, scale.labelSelectorPath)),
  ];
}

/** Paths that name one field: no lists. */
function unlessSimplePath(field: string, path: unknown, under = "."): FieldError[] {
  if (typeof path !== "string" || path === "") return [required(field)];
  if (path.startsWith(under) && /^(\.[A-Za-z_][\w-]*)+$/.test(path)) return [];
  return [invalidValue(field, path, `should be a simple json path under ${under}`)];
}

function validateApproval({ spec, metadata }: Crd): FieldError[] {
  if (!PROTECTED_GROUP.test(spec.group)) return [];
  const approval = metadata.annotations?.[APPROVED] ?? "";
  if (approval.startsWith("https://") || approval.startsWith("unapproved")) return [];
  const why = `protected groups must have approval annotation "${APPROVED}", see https://github.com/kubernetes/enhancements/pull/1111`;
  return [required(`metadata.annotations[${APPROVED}]`, why)];
}
