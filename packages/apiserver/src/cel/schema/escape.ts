/** Words of the language: a field of such a name is written `__name__`. Source: k8s.io/apiserver, pkg/cel/escaping.go. */
const RESERVED = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ["__", "__underscores__"],
  [".", "__dot__"],
  ["-", "__dash__"],
  ["/", "__slash__"],
]);

/** The name by which a rule writes a field; undefined for fields that no rule can name. */
export function escapeField(name: string): string | undefined {
  if (RESERVED.has(name)) return `__${name}__`;
  const escaped = name.replaceAll(/__|[.\-/]/g, (found) => ESCAPES.get(found) ?? found);
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(escaped) ? escaped : undefined;
}
