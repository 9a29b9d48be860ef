import type { Schema } from "../../schema/types.ts";

/**
 * The field that a rule's `fieldPath` names, as problems write it (`.a['b'].c` is `a.b.c`); undefined where the schema
 * has none such. Source: apiextensions-apiserver, ValidFieldPath.
 */
export function resolveFieldPath(path: string, schema: Schema): string | undefined {
  const step = /\.([^.[\]]+)|\['((?:\\.|[^'\\])*)'\]/y;
  let at: Schema | boolean | undefined = schema;
  let resolved = "";
  let end = 0;
  while (end < path.length) {
    step.lastIndex = end;
    const [found, plain, quoted] = step.exec(path) ?? [];
    const name = plain ?? (quoted === undefined ? undefined : unescapeQuoted(quoted));
    if (found === undefined || name === undefined || typeof at !== "object") return undefined;
    const properties: Schema["properties"] = at.properties;
    const additionalProperties: Schema["additionalProperties"] = at.additionalProperties;
    const isNamed: boolean = properties !== undefined;
    at =
      properties !== undefined
        ? Object.hasOwn(properties, name)
          ? properties[name]
          : undefined
        : additionalProperties;
    if (at === undefined || at === false) return undefined;
    resolved += isNamed ? `${resolved === "" ? "" : "."}${name}` : `[${name}]`;
    end += found.length;
  }
  return resolved;
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
