import { dns1035Problems, subdomainProblems, type NameProblems } from "#values/names.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { IMMUTABLE, invalid, notSupported, required } from "#values/field-errors.ts";
import { checkStructural } from "./structural/structural.ts";
import type { FieldError } from "#status.ts";
import { approvalOf } from "./approval.ts";
import { validateConversion } from "./validate-conversion.ts";
import {
  validateColumns,
  validateDeprecation,
  validateScale,
  validateSelectable,
} from "./validate-version.ts";
import { type Crd, type CrdNames, type CrdSpec, type CrdVersion, isEstablished } from "./types.ts";

/** Source: apiextensions-apiserver, pkg/apis/apiextensions/validation. */

export function validateCrd(crd: Crd): FieldError[] {
  const { names } = specOf(crd);
  const { name } = crd.metadata;
  const isNamed = name === "" || name === `${names.plural}.${specOf(crd).group}`;
  return [
    ...(isNamed ? [] : [invalid("metadata.name", name, `must be spec.names.plural+"."+spec.group`)]),
    ...validateRest(crd),
    ...approvalOf(crd).errors,
    ...validatePreserve(crd),
  ];
}

export function validateCrdUpdate(crd: Crd, old: Crd): FieldError[] {
  const [spec, before] = [specOf(crd), specOf(old)];
  const frozen: [string, unknown, unknown][] = [
    ["spec.group", spec.group, before.group],
    ["spec.names.plural", spec.names.plural, before.names.plural],
  ];
  if (isEstablished(old)) {
    frozen.push(
      ["spec.scope", spec.scope, before.scope],
      ["spec.names.kind", spec.names.kind, before.names.kind],
    );
  }
  const approval = approvalOf(crd);
  return [
    ...validateRest(crd),
    ...frozen.filter(([, now, then]) => now !== then).map(([field, now]) => invalid(field, now, IMMUTABLE)),
    // An update that does not change the approval does not validate it.
    ...(approval.state === approvalOf(old).state ? [] : approval.errors),
    ...(old.spec.preserveUnknownFields === true ? [] : validatePreserve(crd)),
  ];
}

/** In the input of validation, any field may be missing. */
interface LooseSpec {
  readonly group: string;
  readonly scope: string;
  readonly names: CrdNames;
  readonly versions: readonly CrdVersion[] | undefined;
  readonly conversion: CrdSpec["conversion"] | undefined;
}

function specOf({ spec }: { readonly spec?: Partial<CrdSpec> }): LooseSpec {
  const { group = "", scope = "", names, versions, conversion } = spec ?? {};
  return {
    group,
    scope,
    names: { plural: "", kind: "", ...names },
    versions,
    conversion,
  };
}

function validateRest(crd: Crd): FieldError[] {
  const spec = specOf(crd);
  const { versions } = spec;
  return [
    ...validateGroup(spec.group),
    ...validateScope(spec.scope),
    ...validateVersions(versions),
    ...validateNames(spec.names),
    ...validateConversion({ ...spec.conversion }),
    ...validateStored(crd.status?.storedVersions ?? [], versions ?? []),
  ];
}

function validateGroup(group: string): FieldError[] {
  if (group === "") return [required("spec.group")];
  const problems = subdomainProblems(group);
  if (problems.length > 0) return [invalid("spec.group", group, problems.join(","))];
  return group.includes(".")
    ? []
    : [invalid("spec.group", group, "should be a domain with at least one dot")];
}

const SCOPES = ["Cluster", "Namespaced"];

function validateScope(scope: string): FieldError[] {
  if (scope === "") return [required("spec.scope")];
  return SCOPES.includes(scope) ? [] : [notSupported("spec.scope", scope, SCOPES)];
}

function validatePreserve({ spec }: { readonly spec?: Partial<CrdSpec> }): FieldError[] {
  if (spec?.preserveUnknownFields !== true) return [];
  const why =
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
  return [invalid("spec.preserveUnknownFields", true, why)];
}

function validateNames(names: CrdNames): FieldError[] {
  const { plural, singular = "", kind, listKind = "", shortNames = [], categories = [] } = names;
  const single: [string, string][] = Object.entries({ plural, singular, kind, listKind });
  return [
    ...single.filter(([, value]) => value === "").map(([field]) => required(`spec.names.${field}`)),
    ...unlessLabel("plural", plural),
    ...unlessLabel("singular", singular),
    ...unlessKind("kind", kind),
    ...unlessKind("listKind", listKind),
    ...shortNames.flatMap((it, at) => problemsAt(`spec.names.shortNames[${at}]`, it, dns1035Problems(it))),
    ...categories.flatMap((it, at) => problemsAt(`spec.names.categories[${at}]`, it, dns1035Problems(it))),
    ...(kind !== "" && kind === listKind
      ? [invalid("spec.names.listKind", listKind, "kind and listKind may not be the same")]
      : []),
  ];
}

function unlessLabel(field: string, value: string): FieldError[] {
  return problemsAt(`spec.names.${field}`, value, value === "" ? [] : dns1035Problems(value));
}

function unlessKind(field: string, value: string): FieldError[] {
  const problems = value === "" ? [] : dns1035Problems(value.toLowerCase());
  const [first, ...others] = problems;
  if (first === undefined) return [];
  const reported = [`may have mixed case, but should otherwise match: ${first}`, ...others];
  return problemsAt(`spec.names.${field}`, value, reported);
}

function problemsAt(field: string, value: string, problems: NameProblems): FieldError[] {
  return problems.length === 0 ? [] : [invalid(field, value, problems.join(","))];
}

function validateVersions(versions: readonly CrdVersion[] | undefined): FieldError[] {
  const all = versions ?? [];
  const names = versions?.map((it) => it.name);
  const first = all[0]?.name ?? "";
  const errors = [
    // The first one is also the `spec.version` of a time when there was but one.
    ...(first === "" ? [] : problemsAt("spec.version", first, dns1035Problems(first))),
    ...all.flatMap((it, at) => validateVersion(it, `spec.versions[${at}]`)),
    ...whereItStands(all, "schema").flatMap(([{ schema }, field]) => validateSchema(schema, field)),
    ...whereItStands(all, "subresources").flatMap(([it, field]) =>
      validateScale(it.subresources?.scale, field),
    ),
    ...whereItStands(all, "additionalPrinterColumns").flatMap(([it, field]) =>
      validateColumns(it.additionalPrinterColumns ?? [], field),
    ),
    ...whereItStands(all, "selectableFields").flatMap(([it, field]) => validateSelectable(it, field)),
  ];
  if (new Set(names).size !== all.length) {
    errors.push(invalid("spec.versions", names, "must contain unique version names"));
  }
  if (all.filter((it) => it.storage).length !== 1) {
    errors.push(invalid("spec.versions", names, "must have exactly one version marked as storage version"));
  }
  return errors;
}

/**
 * What all versions share is looked at once, and named as if it stood outside of them: the real server holds it there.
 * Yields each version to look at, and the path of its field.
 */
function whereItStands(versions: readonly CrdVersion[], field: keyof CrdVersion): [CrdVersion, string][] {
  const [first, ...others] = versions;
  const shared = first?.[field];
  if (first !== undefined && shared !== undefined && others.every((it) => sameJson(it[field], shared)))
    return [[first, `spec.${field === "schema" ? "validation" : field}`]];
  return versions.map((it, at) => [it, `spec.versions[${at}].${field}`]);
}

function validateVersion(version: CrdVersion, field: string): FieldError[] {
  const { name, schema } = version;
  return [
    ...problemsAt(`${field}.name`, name, dns1035Problems(name)),
    ...(schema?.openAPIV3Schema === undefined ? [required(`${field}.schema.openAPIV3Schema`)] : []),
    ...validateDeprecation(version, `${field}.deprecationWarning`),
  ];
}

function validateSchema(schema: CrdVersion["schema"], field: string): FieldError[] {
  const { openAPIV3Schema: own } = schema ?? {};
  return own === undefined ? [] : checkStructural(own, `${field}.openAPIV3Schema`);
}

function validateStored(stored: readonly string[], versions: readonly CrdVersion[]): FieldError[] {
  const field = "status.storedVersions";
  if (stored.length === 0) return [invalid(field, undefined, "must have at least one stored version")];
  const left = new Set(stored);
  const errors: FieldError[] = [];
  for (const { name, storage } of versions) {
    if (storage && !left.has(name))
      errors.push(invalid(field, stored, `must have the storage version ${name}`));
    left.delete(name);
  }
  for (const version of left) {
    const why =
      `missing from spec.versions; ${version} was previously a storage version, and must remain in spec.versions until ` +
      `a storage migration ensures no data remains persisted in ${version} and removes ${version} from status.storedVersions`;
    errors.push(invalid(`${field}[${stored.indexOf(version)}]`, version, why));
  }
  return errors;
}
