/**
 * Forms of names beyond those that every kind shares (`registry/names.ts`). Texts as upstream's: k8s.io/apimachinery,
 * pkg/util/validation.
 */

/** Returns what is wrong, or undefined. */
export type NameCheck = (name: string) => string | undefined;

/** A port's name as targets refer to it: an IANA service name (RFC 6335). */
export function checkPortName(name: string): string | undefined {
  if (name.length > 15) return "must be no more than 15 characters";
  if (!/^[-a-z0-9]+$/.test(name)) {
    return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
  }
  if (!/[a-z]/.test(name)) return "must contain at least one letter (a-z)";
  if (name.includes("--")) return "must not contain consecutive hyphens";
  return name.startsWith("-") || name.endsWith("-") ? "must not begin or end with a hyphen" : undefined;
}

/** A key of ConfigMaps and Secrets. */
export function checkDataKey(key: string): string | undefined {
  if (key.length > 253) return "must be no more than 253 bytes";
  if (key === "." || key === "..") return `must not be '${key}'`;
  if (key.startsWith("..")) return "must not start with '..'";
  if (/^[-._a-zA-Z0-9]+$/.test(key)) return undefined;
  return (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  " +
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
  );
}
