/** What names may look like. Texts as upstream's: apimachinery, pkg/util/validation. */

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const QUALIFIED = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

export function checkSubdomain(name: string): string | undefined {
  if (name.length > 253) return "must be no more than 253 characters";
  if (SUBDOMAIN.test(name)) return undefined;
  return (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start " +
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
  );
}

export function checkDnsLabel(name: string): string | undefined {
  if (name.length > 63) return "must be no more than 63 characters";
  if (LABEL.test(name)) return undefined;
  return (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end " +
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
  );
}

/** Keys of labels and annotations, and finalizers: "name" or "prefix/name". */
export function checkQualifiedName(name: string): string | undefined {
  const slash = name.indexOf("/");
  const prefix = slash < 0 ? undefined : name.slice(0, slash);
  const local = name.slice(slash + 1);
  if (local.includes("/")) return "a qualified name must consist of an optional DNS prefix and one name";
  if (prefix === "") return "prefix part must be non-empty";
  if (prefix !== undefined) {
    const wrong = checkSubdomain(prefix);
    if (wrong !== undefined) return `prefix part ${wrong}`;
  }
  if (local === "") return "name part must be non-empty";
  if (local.length > 63) return "name part must be no more than 63 characters";
  if (QUALIFIED.test(local)) return undefined;
  return (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric " +
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
  );
}

export function checkLabelValue(value: string): string | undefined {
  if (value === "") return undefined;
  if (value.length > 63) return "must be no more than 63 characters";
  if (QUALIFIED.test(value)) return undefined;
  return (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and " +
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
  );
}

/** The least that a name needs to stand in a path. */
export function checkPathSegment(name: string): string | undefined {
  if (name === "." || name === "..") return `may not be '${name}'`;
  if (name.includes("/")) return "may not contain '/'";
  return name.includes("%") ? "may not contain '%'" : undefined;
}
