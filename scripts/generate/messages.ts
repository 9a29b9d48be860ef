import type { Inputs, RawField } from "./inputs.ts";

/** Bits of a field's last column; the decoder reads the same. */
const REPEATED = 1;
const POINTER = 2;
const ALWAYS = 4;
const MAP = 8;

const SCALARS = new Set(["string", "bytes", "bool", "int32", "int64", "double"]);

/** Field number, JSON name (empty: inlined), type (a scalar or a definition's name), bits. */
export type FieldRow = readonly [number, string, string, number];

/** "k8s.io.api.core.v1" → "io.k8s.api.core.v1": protobuf packages and OpenAPI definitions name the same types. */
function definitionName(packageName: string, message: string): string {
  const path = packageName
    .replace(/^k8s\.io\./, "io.k8s.")
    .replace("apiextensions_apiserver", "apiextensions-apiserver");
  return `${path}.${message}`;
}

interface Message {
  readonly packageName: string;
  readonly fields: Readonly<Record<string, RawField>>;
}

/** The messages named by `roots` and all that they refer to. Kinds without a protobuf form are left out. */
export function trimMessages(
  messages: Inputs["messages"],
  roots: readonly string[],
): Record<string, FieldRow[]> {
  const all = new Map<string, Message>();
  for (const [packageName, ofPackage] of Object.entries(messages)) {
    for (const [message, fields] of Object.entries(ofPackage)) {
      all.set(definitionName(packageName, message), { packageName, fields });
    }
  }
  const found = new Map<string, FieldRow[]>();
  const waiting = [...roots];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const message = all.get(name);
    if (found.has(name) || message === undefined) continue;
    const rows = Object.entries(message.fields).map(([id, field]) =>
      row(Number(id), field, message.packageName),
    );
    found.set(name, rows);
    waiting.push(...rows.map(([, , type]) => type).filter((type) => !SCALARS.has(type)));
  }
  return Object.fromEntries([...found].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function row(id: number, field: RawField, packageName: string): FieldRow {
  const map = /^map<string, (.+)>$/.exec(field.type);
  const element = map?.[1] ?? field.type;
  const bits =
    (field.repeated === true ? REPEATED : 0) |
    (field.pointer === true ? POINTER : 0) |
    (field.always === true ? ALWAYS : 0) |
    (map === null ? 0 : MAP);
  return [id, field.json, typeName(element, packageName), bits];
}

function typeName(type: string, packageName: string): string {
  if (SCALARS.has(type)) return type;
  const dot = type.lastIndexOf(".");
  return dot === -1
    ? definitionName(packageName, type)
    : definitionName(type.slice(0, dot), type.slice(dot + 1));
}
