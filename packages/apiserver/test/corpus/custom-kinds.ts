import type { Schema } from "#schema/types.ts";
import type { CustomDefinition } from "./custom-mutations.ts";

/** Definitions with what schemas of custom kinds may hold: all types, formats and limits, lists of each type, two versions that differ. */

const TEXT: Schema = { type: "string" };
const INTEGER: Schema = { type: "integer", format: "int32" };
const INT_OR_STRING: Schema = {
  "x-kubernetes-int-or-string": true,
  anyOf: [{ type: "integer" }, { type: "string" }],
};
const QUANTITY: Schema = { ...INT_OR_STRING, pattern: "^[0-9]+(m|Ki|Mi)?$" };

function object(properties: Readonly<Record<string, Schema>>, more: Schema = {}): Schema {
  return { type: "object", properties, ...more };
}

function list(items: Schema, more: Schema = {}): Schema {
  return { type: "array", items, ...more };
}

function keyed(items: Schema, ...keys: readonly string[]): Schema {
  return list(
    { ...items, required: keys },
    { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys },
  );
}

const CONDITIONS = keyed(
  object({
    type: { type: "string", maxLength: 64 },
    status: { type: "string", enum: ["True", "False", "Unknown"] },
    lastTransitionTime: { type: "string", format: "date-time" },
    observedGeneration: { type: "integer", format: "int64", minimum: 0 },
  }),
  "type",
);

const PORT = object({
  name: { ...TEXT, default: "web" },
  port: { ...INTEGER, minimum: 1, maximum: 65_535 },
  target: INT_OR_STRING,
});

/** Fields that both versions have. */
const SHARED: Readonly<Record<string, Schema>> = {
  replicas: { ...INTEGER, minimum: 0, default: 1 },
  class: { type: "string", enum: ["small", "large"], nullable: true },
  address: { type: "string", oneOf: [{ format: "ipv4" }, { format: "ipv6" }] },
  timeout: { type: "string", format: "duration" },
  since: { type: "string", format: "date-time" },
  names: list({ ...TEXT, minLength: 1 }, { "x-kubernetes-list-type": "set", maxItems: 4 }),
  ports: keyed(PORT, "name"),
  limits: { type: "object", additionalProperties: QUANTITY, maxProperties: 3 },
  ratio: { type: "number", minimum: 0, exclusiveMinimum: true, multipleOf: 5 },
  template: object(
    {},
    { "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
  ),
  free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  any: { "x-kubernetes-preserve-unknown-fields": true },
  selector: object(
    { matchLabels: { type: "object", additionalProperties: TEXT } },
    { "x-kubernetes-map-type": "atomic" },
  ),
  choice: object(
    { one: TEXT, two: object({ deep: { type: "boolean" } }, { minProperties: 1 }) },
    { oneOf: [{ required: ["one"] }, { required: ["two"] }] },
  ),
};

const SELECTOR: Schema = { type: "string", maxLength: 64 };

function version(
  name: string,
  spec: Readonly<Record<string, Schema>>,
  status: Readonly<Record<string, Schema>>,
): CustomDefinition["spec"]["versions"][number] {
  const rules = [
    { rule: "!has(self.names) || self.names.all(it, it != 'web')", message: "web is not a name" },
    { rule: "!has(self.replicas) || self.replicas < 500", fieldPath: ".replicas" },
  ];
  const openAPIV3Schema = object(
    {
      spec: object(spec, { required: ["replicas"], "x-kubernetes-validations": rules }),
      status: object({ replicas: INTEGER, selector: SELECTOR, conditions: CONDITIONS, ...status }),
    },
    { required: ["spec"] },
  );
  const scale = {
    specReplicasPath: ".spec.replicas",
    statusReplicasPath: ".status.replicas",
    labelSelectorPath: ".status.selector",
  };
  return {
    name,
    served: true,
    storage: name === "v2",
    schema: { openAPIV3Schema },
    subresources: { status: {}, scale },
  };
}

/** Fields of one version, fields that have another type in the other, and lists that are known by keys in one of them. */
const VERSIONED: CustomDefinition = {
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { plural: "things", singular: "thing", kind: "Thing", listKind: "ThingList" },
    versions: [
      version(
        "v1",
        {
          ...SHARED,
          old: TEXT,
          peers: list(object({ name: TEXT, weight: INTEGER })),
          args: { type: "object", additionalProperties: TEXT },
        },
        { phase: TEXT },
      ),
      version(
        "v2",
        {
          ...SHARED,
          new: object({ ref: TEXT }),
          peers: keyed(object({ name: TEXT, weight: INTEGER }), "name"),
          args: list(TEXT),
        },
        { usage: { type: "object", additionalProperties: INT_OR_STRING } },
      ),
    ],
  },
};

/** One version, with neither a status nor a namespace. */
const PLAIN: CustomDefinition = {
  spec: {
    group: "example.com",
    scope: "Cluster",
    names: { plural: "plains", singular: "plain", kind: "Plain", listKind: "PlainList" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: object({
            spec: object(SHARED),
            status: object({ conditions: CONDITIONS }),
            data: { type: "object", additionalProperties: list(TEXT, { "x-kubernetes-list-type": "set" }) },
          }),
        },
      },
    ],
  },
};

export const CUSTOM_KINDS: readonly CustomDefinition[] = [VERSIONED, PLAIN];
