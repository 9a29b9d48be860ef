import type { Schema } from "#schema/types.ts";

/**
 * The field that a rule's `fieldPath` names, as problems write it (`.a['b'].c` is `a.b.c`); undefined where the schema
 * has none such. Source: apiextensions-apiserver, ValidFieldPath.
 */
export function resolveFieldPath(path: string, schema: Schema): string | undefined {
  const step = /\.([^.[\]]+)|\['((?:\\.|[^'\\])*)'\]/y;
  let at: Schema | boolean | undefined = schema;
  let resolved = "";
  for (let end = 0; end < path.length; end = step.lastIndex) {
    step.lastIndex = end;
    const [found, plain, quoted = ""] = step.exec(path) ?? [];
    const name = plain ?? unescapeQuoted(quoted);
    if (found === undefined || name === undefined || typeof at !== "object") return undefined;
    const isNamed: boolean = at.properties !== undefined;
    at = fieldOf(at, name);
    if (at === undefined || at === false) return undefined;
    resolved += isNamed ? `${resolved === "" ? "" : "."}${name}` : `[${name}]`;
  }
  return resolved;
}

function fieldOf({ properties, additionalProperties }: Schema, name: string): Schema | boolean | undefined {
  if (properties === undefined) return additionalProperties;
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: "\u0007",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "'": "'",
  "\\": "\\",
};

function unescapeQuoted(text: string): string | undefined {
  let isValid = true;
  const plain = text.replaceAll(/\\(.)/g, (_, letter: string) => {
    const meant = ESCAPES[letter];
    if (meant === undefined) isValid = false;
    return meant ?? "";
  });
  return isValid ? plain : undefined;
}
