import type {
  CustomResourceDefinition,
  JsonSchema,
  PrinterColumn,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";

/** Small words from which the CustomResourceDefinitions of this project are put together. */

export function text(description?: string, more: JsonSchema = {}): JsonSchema {
  return { type: "string", ...described(description), ...more };
}
export function oneOf(values: readonly string[], description?: string): JsonSchema {
  return { type: "string", enum: values, ...described(description) };
}
export function bool(description?: string): JsonSchema {
  return { type: "boolean", ...described(description) };
}
export function int32(description?: string, more: JsonSchema = {}): JsonSchema {
  return { type: "integer", format: "int32", ...described(description), ...more };
}
export function int64(description?: string, more: JsonSchema = {}): JsonSchema {
  return { type: "integer", format: "int64", ...described(description), ...more };
}
export function time(description?: string): JsonSchema {
  return { type: "string", format: "date-time", ...described(description) };
}
export function textMap(description?: string): JsonSchema {
  return { type: "object", additionalProperties: { type: "string" }, ...described(description) };
}
/** An object. Names that end in "!" are required. */
export function object(
  fields: Readonly<Record<string, JsonSchema>>,
  description?: string,
  more: JsonSchema = {},
): JsonSchema {
  const names = Object.keys(fields);
  const required = names.filter((name) => name.endsWith("!")).map((name) => name.slice(0, -1));
  return {
    type: "object",
    ...described(description),
    properties: Object.fromEntries(names.map((name) => [name.replace(/!$/, ""), fields[name] ?? {}])),
    ...(required.length === 0 ? {} : { required }),
    ...more,
  };
}
export function list(items: JsonSchema, description?: string, more: JsonSchema = {}): JsonSchema {
  return { type: "array", ...described(description), items, ...more };
}
/** Replaced as a whole. */
export function atomicList(items: JsonSchema, description?: string, more: JsonSchema = {}): JsonSchema {
  return list(items, description, { "x-kubernetes-list-type": "atomic", ...more });
}
/** Merged entry by entry, told apart by `key`. */
export function mapList(key: string, items: JsonSchema, description?: string): JsonSchema {
  return list(items, description, { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] });
}

function described(description: string | undefined): JsonSchema {
  return description === undefined ? {} : { description };
}

/** Label or port name of RFC 1123 and RFC 1035 are left to the controllers; a name has to fit a label value here. */
export const NAME_FITS_LABEL: JsonSchema = {
  "x-kubernetes-validations": [
    { rule: "size(self.metadata.name) < 64", message: "metadata.name max length is 63" },
  ],
};

/** `metav1.Condition`, bounds included (apimachinery, meta/v1/types.go). */
export const CONDITION = object({
  "lastTransitionTime!": time("When the status changed last."),
  "message!": text("For people.", { maxLength: 32_768 }),
  observedGeneration: int64("The generation of the object that this was decided on.", { minimum: 0 }),
  "reason!": text("For programs.", {
    minLength: 1,
    maxLength: 1024,
    pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
  }),
  "status!": oneOf(["True", "False", "Unknown"]),
  "type!": text(undefined, {
    maxLength: 316,
    pattern:
      "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
  }),
});

export const CONDITIONS = mapList("type", CONDITION, "What was found, one entry per type.");
/** As some published schemas have it: without list keys. */
export const PLAIN_CONDITIONS = list(CONDITION, "What was found, one entry per type.");

/** `metav1.LabelSelector`. */
export const LABEL_SELECTOR = object({
  matchLabels: textMap(),
  matchExpressions: atomicList(
    object({
      "key!": text(),
      "operator!": oneOf(["In", "NotIn", "Exists", "DoesNotExist"]),
      values: atomicList(text()),
    }),
  ),
});

export const AFFINITY_CONFIG = object({
  clientIP: object({
    timeoutSeconds: int32("How long a client stays with its endpoint. Unit: seconds. Range: 1 to 86400."),
  }),
});

interface VersionOptions {
  readonly name: string;
  readonly storage?: boolean;
  readonly schema: JsonSchema;
  readonly status?: boolean;
  readonly columns?: readonly PrinterColumn[];
}

export interface CrdOptions {
  readonly group: string;
  readonly kind: string;
  /** Default: the kind in lower case with an "s". */
  readonly plural?: string;
  readonly scope?: "Namespaced" | "Cluster";
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly versions: readonly VersionOptions[];
}

export function crd(options: CrdOptions): CustomResourceDefinition {
  const singular = options.kind.toLowerCase();
  const plural = options.plural ?? `${singular}s`;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name: `${plural}.${options.group}`,
      ...(options.labels === undefined ? {} : { labels: { ...options.labels } }),
      ...(options.annotations === undefined ? {} : { annotations: { ...options.annotations } }),
    },
    spec: {
      group: options.group,
      scope: options.scope ?? "Namespaced",
      names: {
        kind: options.kind,
        listKind: `${options.kind}List`,
        plural,
        singular,
        ...(options.shortNames === undefined ? {} : { shortNames: [...options.shortNames] }),
        ...(options.categories === undefined ? {} : { categories: [...options.categories] }),
      },
      versions: options.versions.map(versionOf),
    },
  };
}

function versionOf(options: VersionOptions): CustomResourceDefinition["spec"]["versions"][number] {
  return {
    name: options.name,
    served: true,
    storage: options.storage ?? true,
    schema: { openAPIV3Schema: withTypeMeta(options.schema) },
    ...(options.status === false ? {} : { subresources: { status: {} } }),
    ...(options.columns === undefined ? {} : { additionalPrinterColumns: [...options.columns] }),
  };
}

function withTypeMeta(schema: JsonSchema): JsonSchema {
  return {
    ...schema,
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object" },
      ...schema.properties,
    },
  };
}

export const AGE: PrinterColumn = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };

/** A column with the status of one condition. */
export function conditionColumn(name: string, type: string): PrinterColumn {
  return { name, type: "string", jsonPath: `.status.conditions[?(@.type=='${type}')].status` };
}

/** Without the fields that are marked as additions: what definitions of other programs have, too. */
export function publishedPart(definition: CustomResourceDefinition): CustomResourceDefinition {
  const { spec } = definition;
  const versions = spec.versions.map((it) => ({
    ...it,
    schema: { openAPIV3Schema: withoutAdditions(it.schema.openAPIV3Schema) },
  }));
  return { ...definition, spec: { ...spec, versions } };
}

function withoutAdditions(schema: JsonSchema): JsonSchema {
  const { properties, items } = schema;
  const kept = Object.entries(properties ?? {}).filter(
    ([, it]) => it.description?.startsWith("Addition.") !== true,
  );
  return {
    ...schema,
    ...(properties === undefined
      ? {}
      : { properties: Object.fromEntries(kept.map(([name, it]) => [name, withoutAdditions(it)])) }),
    ...(items === undefined ? {} : { items: withoutAdditions(items) }),
  };
}
