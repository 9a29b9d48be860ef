import type { Schema } from "#schema/types.ts";
import { FIELDS } from "./field-descriptions.table.ts";
import { FIELDS_OF_KINDS, KINDS } from "./kind-descriptions.table.ts";

/**
 * Short descriptions of built-in kinds and their fields: from tables where a name says too little, else from the name
 * and the type.
 */

/** @param name - For example "io.k8s.api.core.v1.PodSpec". */
export function describeDefinition(name: string): string {
  const kind = name.slice(name.lastIndexOf(".") + 1);
  return KINDS[kind] ?? fromKind(kind);
}

const KIND_FORMS: readonly (readonly [RegExp, (rest: string) => string])[] = [
  [/^(.+)Spec$/, (it) => `What is wanted of a ${it}.`],
  [/^(.+)Status$/, (it) => `What is observed of a ${it}.`],
  [/^(.+)List$/, (it) => `A list of objects of kind ${it}.`],
  [/^(.+)Condition$/, (it) => `One aspect of the state of a ${it}.`],
  [/^(.+)TemplateSpec$/, (it) => `From which objects of kind ${it} are made.`],
  [/^(.+)Source$/, (it) => `A source: ${lower(words(it))}.`],
  [/^(.+)Reference$/, (it) => `A reference: ${lower(words(it))}.`],
  [/^(.+)Selector$/, (it) => `A selection: ${lower(words(it))}.`],
];

function fromKind(kind: string): string {
  for (const [form, text] of KIND_FORMS) {
    const rest = form.exec(kind)?.[1];
    if (rest !== undefined) return text(rest);
  }
  return `${words(kind)}.`;
}

/** The description of `field` of `kind`. */
export function describeField(definition: string, field: string, schema: Schema): string {
  const kind = definition.slice(definition.lastIndexOf(".") + 1);
  const general = kind.endsWith("Condition") ? FIELDS_OF_KINDS[`Condition.${field}`] : undefined;
  return FIELDS_OF_KINDS[`${kind}.${field}`] ?? general ?? FIELDS[field] ?? fromField(field, schema);
}

function fromField(field: string, schema: Schema): string {
  const [, stem = field, unit] = /^(.+?)(Seconds|Milliseconds|Percent|Bytes)$/.exec(field) ?? [];
  const text = lower(words(stem));
  if (unit !== undefined) return `${capital(text)}, in ${lower(unit)}.`;
  if (field.endsWith("Ref")) return `Reference: ${lower(words(field.slice(0, -3)))}.`;
  if (field.endsWith("Time") || field.endsWith("Timestamp")) return `When: ${text}.`;
  if (field.endsWith("Name")) return `Name of the ${lower(words(field.slice(0, -4)))}.`;
  if (schema.type === "boolean") return `Whether: ${text}.`;
  if (schema.type === "array") return `List: ${text}.`;
  if (schema.additionalProperties !== undefined) return `Map: ${text}.`;
  return `${capital(text)}.`;
}

/** "hostIPCs" → "host IPCs". */
function words(name: string): string {
  return name.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/([A-Z])([A-Z][a-z])(?!s\b)/g, "$1 $2");
}

/** First letters small, but not those of abbreviations. */
function lower(text: string): string {
  return text.replaceAll(/\b[A-Z](?=[a-z])/g, (it) => it.toLowerCase());
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
