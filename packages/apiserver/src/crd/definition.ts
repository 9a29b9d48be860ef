import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { ageOf } from "#builtin/duration.ts";
import { checkSubdomain } from "#values/names.ts";
import type { ResourceDefinition, TableColumn, Verb } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { pruneToSchema, shapeCustom } from "#registry/shape.ts";
import { byVersion } from "#registry/catalog.ts";
import { forbidden } from "#status.ts";
import { inKeyOrder } from "#schema/key-order.ts";
import type { Schema } from "#schema/types.ts";
import { type Converter, relabelling } from "./conversion.ts";
import { parseJsonPath } from "./jsonpath.ts";
import type { Crd, CrdNames, CrdVersion, PrinterColumn } from "./types.ts";

const VERBS: readonly Verb[] = [
  "delete",
  "deletecollection",
  "get",
  "list",
  "patch",
  "create",
  "update",
  "watch",
];

/** The resources that a CRD defines: one definition per served version. */
export function definitionsOf(crd: Crd, converter: Converter): readonly ResourceDefinition[] {
  const stored = storedObjects(crd);
  return crd.spec.versions
    .filter((it) => it.served)
    .map((version) => definitionOf(crd, version, { converter, stored }));
}

/**
 * Stored objects are pruned and defaulted by the version that they were stored in when they are read, because its schema may be newer
 * than they are. What the schema leaves as it is comes back as itself, and is not looked at twice.
 */
interface StoredObjects {
  readonly read: (object: ApiObject) => ApiObject;
  /** Keys are apiVersions. */
  readonly schemas: ReadonlyMap<string, Schema>;
  /** Says that the schema of its version leaves `object` as it is. */
  readonly markShaped: (object: ApiObject) => void;
}

function storedObjects({ spec: { group, versions } }: Crd): StoredObjects {
  const schemas = new Map(versions.map((it) => [`${group}/${it.name}`, schemaOf(it)]));
  const storage = schemaOf(versions.find((it) => it.storage) ?? { name: "", served: false, storage: true });
  const shaped = new WeakMap<ApiObject, ApiObject>();
  return {
    schemas,
    read: readerOf(shaped, (object) => shapeCustom(schemas.get(object.apiVersion) ?? storage, object)),
    markShaped: (object) => void shaped.set(object, object),
  };
}

interface Storage {
  readonly converter: Converter;
  readonly stored: StoredObjects;
}

function definitionOf(crd: Crd, version: CrdVersion, { converter, stored }: Storage): ResourceDefinition {
  const { group, scope, versions } = crd.spec;
  const apiVersion = `${group}/${version.name}`;
  const storedVersion = versions.find((it) => it.storage) ?? version;
  const storage = `${group}/${storedVersion.name}`;
  const schema = schemaOf(version);
  const hasStatusDefault = schema.properties?.["status"]?.default !== undefined;
  const { scale, status } = version.subresources ?? {};
  const views = new WeakMap<ApiObject, ApiObject>();
  /** Nothing new comes while the rest is cleared out. */
  const refuseNew = ({ metadata }: ApiObject): never => {
    const why = "create not allowed while custom resource definition is terminating";
    throw forbidden({ group, plural: crd.spec.names.plural }, metadata.name, why);
  };
  return {
    group,
    version: version.name,
    ...servedNames(crd),
    namespaced: scope === "Namespaced",
    verbs: VERBS,
    schema,
    ...(converter === relabelling && versions.length > 1 ? { schemaOf: otherSchemas(schema, stored) } : {}),
    strategy: {
      generation: "spec",
      allowUnconditionalUpdate: false,
      allowCreateOnUpdate: false,
      fieldSelectors: selectableFields(version),
      checkName: checkSubdomain,
      ...(crd.metadata.deletionTimestamp === undefined ? {} : { prepareForCreate: refuseNew }),
    },
    columns: columnsOf(version),
    hasStatus: status !== undefined,
    ...defined({ scale }),
    isCustom: true,
    ...(version.deprecated === true
      ? {
          deprecationWarning: version.deprecationWarning ?? deprecationOf(crd, version),
        }
      : {}),
    ...(converter === relabelling || versions.length === 1 ? {} : { isConverted: true }),
    storedVersion: storage,
    fromStored: readerOf(views, (object) => {
      const own = stored.read(object);
      if (own.apiVersion === apiVersion) return own;
      return inKeyOrder(pruneToSchema(schema, converter.convert(own, apiVersion)));
    }),
    isWhole: (object) => stored.read(object) === object,
    prepareStored: (objects) => converter.prepare([...objects].map(stored.read), apiVersion),
    toStored(object) {
      if (apiVersion !== storage)
        return inKeyOrder(pruneToSchema(schemaOf(storedVersion), converter.convert(object, storage)));
      const sorted = inKeyOrder(object);
      // Creation drops the status, and with it what the schema defaults there.
      if (!hasStatusDefault || sorted["status"] !== undefined) stored.markShaped(sorted);
      return sorted;
    },
  };
}

/** The schemas of the versions; `own` itself for those that are equal to it. */
function otherSchemas(own: Schema, { schemas }: StoredObjects): (apiVersion: string) => Schema | undefined {
  const known = new Map<string, Schema | undefined>();
  return (apiVersion) => {
    if (known.has(apiVersion)) return known.get(apiVersion);
    const other = schemas.get(apiVersion);
    const schema = other !== undefined && sameJson(other, own) ? own : other;
    // Versions that are not there could be any number.
    if (other !== undefined) known.set(apiVersion, schema);
    return schema;
  };
}

/** Names the best version that takes the place of a deprecated one. */
function deprecationOf({ spec: { group, names, versions } }: Crd, { name }: CrdVersion): string {
  const [better] = versions
    .filter((it) => it.served && it.deprecated !== true && byVersion(it.name, name) < 0)
    .toSorted((a, b) => byVersion(a.name, b.name));
  const instead = better === undefined ? "" : `; use ${group}/${better.name} ${names.kind}`;
  return `${group}/${name} ${names.kind} is deprecated${instead}`;
}

function schemaOf({ schema }: CrdVersion): Schema {
  return schema?.openAPIV3Schema ?? { type: "object" };
}

function servedNames(
  crd: Crd,
): Pick<ResourceDefinition, "plural" | "singular" | "kind" | "listKind" | "shortNames" | "categories"> {
  const { plural, kind, singular, listKind, shortNames = [], categories = [] } = namesOf(crd);
  return {
    plural,
    singular: singular ?? kind.toLowerCase(),
    kind,
    listKind: listKind ?? `${kind}List`,
    shortNames,
    categories,
  };
}

/** The names that were accepted; those of the spec may be in conflict. */
function namesOf(crd: Crd): CrdNames {
  const accepted = crd.status?.acceptedNames;
  if (accepted?.plural === undefined || accepted.plural === "" || accepted.kind === undefined)
    return crd.spec.names;
  return { ...accepted, plural: accepted.plural, kind: accepted.kind };
}

/** `shape`, once for each object. */
function readerOf(
  shaped: WeakMap<ApiObject, ApiObject>,
  shape: (object: ApiObject) => ApiObject,
): (object: ApiObject) => ApiObject {
  return (object) => {
    const known = shaped.get(object);
    if (known !== undefined) return known;
    const result = shape(object);
    shaped.set(object, result);
    return result;
  };
}

/** Up to the first column that cannot be read. Source: apiextensions-apiserver, pkg/registry/customresource/tableconvertor. */
function columnsOf({ additionalPrinterColumns }: CrdVersion): readonly TableColumn[] {
  const columns = [NAME];
  try {
    for (const it of additionalPrinterColumns ?? [AGE]) columns.push(columnOf(it));
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
  }
  return columns;
}

const NAME: TableColumn = {
  name: "Name",
  type: "string",
  format: "name",
  description: "Name must be unique within a namespace.",
  cell: (object) => object.metadata.name,
};

const AGE: PrinterColumn = {
  name: "Age",
  type: "date",
  description: "Creation timestamp.",
  jsonPath: ".metadata.creationTimestamp",
};

function columnOf(column: PrinterColumn): TableColumn {
  const read = parseJsonPath(column.jsonPath);
  const { name, format = "", priority = 0 } = column;
  const description =
    column.description ?? `Custom resource definition column (in JSONPath format): ${column.jsonPath}`;
  const type = CELL_TYPES.find((it) => it === column.type) ?? "string";
  return {
    name,
    type,
    format,
    description,
    priority,
    cell: (object, nowMs) => cellOf(type, read(object), nowMs),
  };
}

const CELL_TYPES = ["string", "integer", "number", "boolean", "date"] as const;

function cellOf(
  type: TableColumn["type"],
  found: readonly unknown[],
  nowMs: number,
): string | number | boolean | null {
  const [first] = found;
  if (first === undefined || first === null) return null;
  switch (type) {
    case "date":
      return ageOf(first, nowMs);
    case "integer":
      return typeof first === "number" ? Math.trunc(first) : null;
    case "number":
      return typeof first === "number" ? first : null;
    case "boolean":
      return typeof first === "boolean" ? first : null;
    default:
      return textOf(first);
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function selectableFields({
  selectableFields: fields = [],
}: CrdVersion): Record<string, (object: ApiObject) => string> {
  return Object.fromEntries(
    fields.map(({ jsonPath }) => {
      const read = parseJsonPath(jsonPath);
      return [
        jsonPath.replace(/^\./, ""),
        (object: ApiObject): string => {
          const [value] = read(object);
          return value === undefined ? "" : textOf(value);
        },
      ];
    }),
  );
}
