import { isObject, jsonKey, sameJson } from "@fairlead/base/json.ts";
import type { ObjectMeta, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { type FieldError, MAX_REPORTED_ERRORS } from "#status.ts";
import { labelValueProblems, qualifiedNameProblems, subdomainProblems } from "#values/names.ts";
import type { ResourceDefinition, Strategy } from "./types.ts";
import type { ApiObject } from "#values/object.ts";

/** Rules of `metadata`, the same for every kind. Source: apimachinery, pkg/api/validation/objectmeta.go. */

const MAX_ANNOTATION_BYTES = 256 * 1024;
const NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const MAX_GENERATED_PREFIX = 58;

/** The name for a `generateName`: its prefix and five characters that form no words. */
export function generateName(prefix: string, random: () => number): string {
  let suffix = "";
  for (let at = 0; at < 5; at += 1) suffix += NAME_ALPHABET[Math.floor(random() * NAME_ALPHABET.length)];
  return prefix.slice(0, MAX_GENERATED_PREFIX) + suffix;
}

/** Unit: whole seconds, as `metav1.Time` has them. */
export function timestamp(nowMs: number): string {
  return `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
}

/** kind, apiVersion, metadata, then the rest: the order in which every stored object is serialised. */
export function arranged(object: ApiObject, kind: string, apiVersion: string): ApiObject {
  const { kind: _kind, apiVersion: _apiVersion, metadata, ...rest } = object;
  return { kind, apiVersion, metadata, ...rest };
}

export function validateMetadata(
  object: ApiObject,
  definition: {
    readonly group?: string;
    readonly strategy: Pick<Strategy, "checkName">;
    readonly isCustom: boolean;
  },
): FieldError[] {
  const { metadata } = object;
  const checkName = definition.strategy.checkName ?? subdomainProblems;
  const problemsOf = (name: string): readonly string[] => [checkName(name) ?? []].flat();
  return [
    ...invalidValues("metadata.name", metadata.name, problemsOf(metadata.name)),
    ...validateLabels(metadata.labels),
    ...validateAnnotations(metadata.annotations),
    ...validateOwners(metadata),
    ...validateFinalizers(
      metadata.finalizers,
      definition.isCustom || BARE_FINALIZERS.has(definition.group ?? ""),
    ),
  ];
}

/** Errors of the prefix are reported for `generateName` too, because the client can only fix the prefix. */
export function validateGenerateName(
  { metadata: { generateName: prefix = "" } }: ApiObject,
  { strategy: { checkName = subdomainProblems } }: { readonly strategy: Pick<Strategy, "checkName"> },
): FieldError[] {
  if (prefix === "") return [];
  // A trailing dash is valid, because the server appends characters.
  const completed = prefix.length > 1 ? prefix.replace(/.-$/, "a") : prefix;
  return invalidValues("metadata.generateName", prefix, [checkName(completed) ?? []].flat());
}

function invalidValues(field: string, value: unknown, problems: readonly string[]): FieldError[] {
  return problems.map((it) => invalidValue(field, value, it));
}

export function invalidValue(field: string, value: unknown, why: string): FieldError {
  return { type: "FieldValueInvalid", field, message: `Invalid value: ${JSON.stringify(value)}: ${why}` };
}

function validateLabels(labels: ObjectMeta["labels"] = {}): FieldError[] {
  const errors: FieldError[] = [];
  for (const key of Object.keys(labels)) {
    const value = labels[key] ?? "";
    for (const it of qualifiedNameProblems(key)) errors.push(invalidValue("metadata.labels", key, it));
    for (const it of labelValueProblems(value)) errors.push(invalidValue("metadata.labels", value, it));
    if (errors.length > MAX_REPORTED_ERRORS) break;
  }
  return errors;
}

function validateAnnotations(annotations: ObjectMeta["annotations"]): FieldError[] {
  const errors: FieldError[] = [];
  let bytes = 0;
  for (const [key, value] of Object.entries(annotations ?? {})) {
    if (errors.length <= MAX_REPORTED_ERRORS)
      errors.push(...invalidValues("metadata.annotations", key, qualifiedNameProblems(key.toLowerCase())));
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (bytes > MAX_ANNOTATION_BYTES) {
    const message = `Too long: may not be more than ${MAX_ANNOTATION_BYTES} bytes`;
    errors.push({ type: "FieldValueTooLong", field: "metadata.annotations", message });
  }
  return errors;
}

const OWNERS = "metadata.ownerReferences";

/** Kinds that cannot be owners, because their deletion is not tracked. */
const NO_OWNERS = new Set(["v1/Event", "events.k8s.io/v1/Event"]);

function validateOwners({ ownerReferences: owners = [] }: ObjectMeta): FieldError[] {
  const errors = owners.flatMap(validateOwner);
  const [first, ...others] = owners.filter((it) => it.controller === true);
  for (const other of first === undefined ? [] : others) {
    const found = `${first?.kind}/${first?.name} and ${other.kind}/${other.name}`;
    const why = `Only one reference can have Controller set to true. Found "true" in references for ${found}`;
    errors.push(invalidValue(OWNERS, owners, why));
  }
  return errors;
}

function validateOwner(owner: Partial<OwnerReference>): FieldError[] {
  const { apiVersion = "", kind = "" } = owner;
  const [version = "", ofGroup, ...rest] = apiVersion.split("/").toReversed();
  const errors: FieldError[] = [];
  if (version === "" || rest.length > 0)
    errors.push(invalidValue(`${OWNERS}.apiVersion`, apiVersion, "version must not be empty"));
  for (const part of ["kind", "name", "uid"] as const) {
    if ((owner[part] ?? "") === "") errors.push(invalidValue(`${OWNERS}.${part}`, "", "must not be empty"));
  }
  if (NO_OWNERS.has(`${apiVersion}/${kind}`)) {
    const why = `${ofGroup ?? ""}/${version}, Kind=${kind} is disallowed from being an owner`;
    errors.push(invalidValue(OWNERS, owner, why));
  }
  return errors;
}

/**
 * Removes duplicate owner references.
 *
 * @returns The warning for the client.
 */
export function withoutRepeatedOwners(metadata: ObjectMeta): string | undefined {
  const { ownerReferences: owners = [] } = metadata;
  if (owners.length < 2) return undefined;
  const first = new Map(owners.map((it) => [jsonKey(it), it] as const).toReversed());
  const kept = new Set(first.values());
  const repeated = new Set(owners.filter((it) => !kept.has(it)).map((it) => it.uid));
  if (repeated.size === 0) return undefined;
  metadata.ownerReferences = owners.filter((it) => kept.has(it));
  return (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, " +
    "and may reject such requests as early as 1.24; please fix your requests; " +
    `duplicate UID(s) observed: ${[...repeated].join(", ")}`
  );
}

/** Finalizers that need no domain in front. */
const STANDARD_FINALIZERS = new Set(["kubernetes", "orphan", "foregroundDeletion"]);

/** Groups whose kinds are checked by the generic rules alone: that of CustomResourceDefinitions has such a finalizer itself. */
const BARE_FINALIZERS = new Set([
  "admissionregistration.k8s.io",
  "apiextensions.k8s.io",
  "apiregistration.k8s.io",
]);

/** Custom kinds, for what was there before, take finalizers without a domain. */
function validateFinalizers(finalizers: readonly string[] = [], isBareTaken: boolean): FieldError[] {
  const path = "metadata.finalizers";
  const bare = isBareTaken
    ? []
    : [...finalizers.entries()].filter(([, it]) => !it.includes("/") && !STANDARD_FINALIZERS.has(it));
  return [
    ...finalizers.flatMap((it) => invalidValues(path, it, qualifiedNameProblems(it))),
    ...bare.map(([at, it]) => invalidValue(`${path}[${at}]`, it, NOT_QUALIFIED)),
    ...(OPPOSITE_FINALIZERS.every((it) => finalizers.includes(it))
      ? [invalidValue(path, finalizers, `finalizer ${OPPOSITE_FINALIZERS.join(" and ")} cannot be both set`)]
      : []),
  ];
}

const OPPOSITE_FINALIZERS = ["orphan", "foregroundDeletion"];
const NOT_QUALIFIED = "name is neither a standard finalizer name nor is it fully qualified";

/** Validates updates of metadata. */
export function validateMetadataUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const wrong = IMMUTABLE.filter((it) => object.metadata[it] !== old.metadata[it]).map((it) =>
    invalidValue(`metadata.${it}`, object.metadata[it], "field is immutable"),
  );
  const found = [...validateNewFinalizers(object, old), ...wrong];
  // Upstream finds it twice: by the rules of metadata, and by those of the kind.
  return [...found, ...found];
}

const IMMUTABLE = ["deletionTimestamp", "deletionGracePeriodSeconds"] as const;

function validateNewFinalizers(object: ApiObject, old: ApiObject): FieldError[] {
  if (old.metadata.deletionTimestamp === undefined) return [];
  const before = new Set(old.metadata.finalizers);
  const added = (object.metadata.finalizers ?? []).filter((it) => !before.has(it));
  if (added.length === 0) return [];
  const found = `[]string{${added.map((it) => JSON.stringify(it)).join(", ")}}`;
  const why = `no new finalizers can be added if the object is being deleted, found new finalizers ${found}`;
  return [{ type: "FieldValueForbidden", field: "metadata.finalizers", message: `Forbidden: ${why}` }];
}

/** Takes what only the server sets from the stored object, whatever the client sent. */
export function keepServerMetadata(object: ApiObject, old: ApiObject): void {
  const { metadata } = object;
  const kept = old.metadata;
  metadata.name = kept.name;
  for (const field of ["namespace", "uid", "creationTimestamp", "generation"] as const) {
    if (kept[field] === undefined) delete metadata[field];
    else Object.assign(metadata, { [field]: kept[field] });
  }
  // An end that was never begun is refused later; one that was is not moved by an update.
  if (kept.deletionTimestamp !== undefined) metadata.deletionTimestamp = kept.deletionTimestamp;
  if (kept.deletionGracePeriodSeconds !== undefined)
    metadata.deletionGracePeriodSeconds ??= kept.deletionGracePeriodSeconds;
  delete (metadata as { selfLink?: string }).selfLink;
}

const UNCOUNTED: ReadonlySet<string> = new Set(["none", "first"]);

/** Whether `object` differs from `old` in what `generation` counts. */
export function changesGeneration(
  definition: ResourceDefinition,
  object: ApiObject,
  old: ApiObject,
): boolean {
  const { generation } = definition.strategy;
  if (UNCOUNTED.has(generation)) return false;
  const ignoresStatus = !definition.isCustom || definition.hasStatus;
  for (const field of new Set([...Object.keys(object), ...Object.keys(old)])) {
    if (field === "metadata" || field === "kind" || field === "apiVersion") continue;
    if (field === "status" && ignoresStatus) continue;
    if (!sameJson(object[field], old[field])) return true;
  }
  if (generation === "spec") return false;
  const counted = generation === "spec-and-labels" ? "labels" : "annotations";
  return !sameJson(object.metadata[counted], old.metadata[counted]);
}

/** Whether two states are equal. A new time in managedFields is not a change. */
export function isSameState(object: ApiObject, old: ApiObject): boolean {
  // What is changed most often first: the fields of managers are as many as those of all the rest.
  const [{ metadata, ...content }, { metadata: oldMetadata, ...oldContent }] = [object, old];
  return (
    sameJson(content, oldContent) && sameJson(withoutBookkeeping(metadata), withoutBookkeeping(oldMetadata))
  );
}

function withoutBookkeeping({ managedFields, resourceVersion: _version, ...metadata }: ObjectMeta): unknown {
  const managers = managedFields?.map(({ time: _time, ...rest }) => rest);
  return { ...metadata, managedFields: managers };
}

/** Makes sure that metadata has the shape that the rest of the server relies on. Returns what is wrong with it. */
export function checkMetadataShape(object: Readonly<Record<string, unknown>>): string | undefined {
  const { metadata } = object;
  if (metadata === undefined || metadata === null) return undefined;
  if (!isObject(metadata)) return "metadata must be an object";
  for (const field of ["name", "namespace", "generateName", "uid", "resourceVersion"]) {
    const value = metadata[field];
    if (value !== undefined && value !== null && typeof value !== "string")
      return `metadata.${field} must be a string`;
  }
  for (const field of ["labels", "annotations"]) {
    const value = metadata[field] ?? {};
    if (!isObject(value)) return `metadata.${field} must be an object`;
    const wrong = Object.entries(value).find(([, it]) => typeof it !== "string");
    if (wrong !== undefined) return `metadata.${field}[${wrong[0]}] must be a string`;
  }
  return checkMetadataLists(metadata);
}

function checkMetadataLists(metadata: Record<string, unknown>): string | undefined {
  for (const field of ["finalizers", "ownerReferences", "managedFields"]) {
    const value = metadata[field] ?? [];
    if (!Array.isArray(value)) return `metadata.${field} must be an array`;
    const ofObjects = field !== "finalizers";
    const isWrong = value.some((it) => (ofObjects ? !isObject(it) : typeof it !== "string"));
    if (isWrong) return `metadata.${field} must hold ${ofObjects ? "objects" : "strings"}`;
  }
  return undefined;
}
