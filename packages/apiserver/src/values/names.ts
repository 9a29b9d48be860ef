/**
 * Validation of names. Each check returns all errors, in upstream's words: apimachinery,
 * pkg/util/validation and pkg/api/validate/content.
 */
export type NameProblems = readonly string[];

const NO_PROBLEMS: NameProblems = [];

const LABEL_FORM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORM = `${LABEL_FORM}(\\.${LABEL_FORM})*`;
const QUALIFIED_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN = wholly(SUBDOMAIN_FORM);
const LABEL = wholly(LABEL_FORM);
const QUALIFIED = wholly(QUALIFIED_FORM);

export function wholly(form: string): RegExp {
  return new RegExp(`^${form}$`);
}

/** `form (e.g. 'a',  or 'b', regex used for validation is '...')`, as upstream writes it. */
export function formText(what: string, form: string, ...examples: readonly string[]): string {
  const list = examples.map((it) => `'${it}'`).join(",  or ");
  return `${what} (e.g. ${list}, regex used for validation is '${form}')`;
}

export function subdomainProblems(name: string): NameProblems {
  const what =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start " +
    "and end with an alphanumeric character";
  return [
    ...tooLong(name, 253, "characters"),
    ...(SUBDOMAIN.test(name) ? [] : [formText(what, SUBDOMAIN_FORM, "example.com")]),
  ];
}

export function dnsLabelProblems(name: string): NameProblems {
  const long = tooLong(name, 63, "characters");
  if (LABEL.test(name)) return long;
  if (SUBDOMAIN.test(name)) return [...long, "must not contain dots"];
  const what =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with " +
    "an alphanumeric character";
  return [...long, formText(what, LABEL_FORM, "my-name", "123-abc")];
}

const QUALIFIED_WORDS =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/** Keys of labels and annotations, and finalizers: "name" or "prefix/name". */
export function qualifiedNameProblems(name: string): NameProblems {
  // Most have no prefix, and nothing is wrong with them.
  if (name.length <= 63 && QUALIFIED.test(name)) return NO_PROBLEMS;
  const parts = name.split("/");
  const examples = ["MyName", "my.name", "123-abc"];
  if (parts.length > 2) {
    const what = `a valid label key ${QUALIFIED_WORDS}`;
    return [
      `${formText(what, QUALIFIED_FORM, ...examples)} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const local = parts.at(-1) ?? "";
  const problems = parts.length === 2 ? prefixProblems(parts[0] ?? "") : [];
  if (local === "") problems.push("name part must be non-empty");
  else problems.push(...tooLong(local, 63, "bytes").map((it) => `name part ${it}`));
  if (!QUALIFIED.test(local)) {
    problems.push(`name part ${formText(QUALIFIED_WORDS, QUALIFIED_FORM, ...examples)}`);
  }
  return problems;
}

function prefixProblems(prefix: string): string[] {
  if (prefix === "") return ["prefix part must be non-empty"];
  return subdomainProblems(prefix).map((it) => `prefix part ${it}`);
}

export function labelValueProblems(value: string): NameProblems {
  const long = tooLong(value, 63, "bytes");
  if (value === "" || QUALIFIED.test(value)) return long;
  const what = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`;
  return [...long, formText(what, `(${QUALIFIED_FORM})?`, "MyValue", "my_value", "12345")];
}

export function tooLong(text: string, limit: number, unit: "bytes" | "characters"): string[] {
  return Buffer.byteLength(text) > limit ? [`must be no more than ${limit} ${unit}`] : [];
}

export function checkSubdomain(name: string): string | undefined {
  return subdomainProblems(name)[0];
}

export function checkDnsLabel(name: string): string | undefined {
  return dnsLabelProblems(name)[0];
}

export function checkQualifiedName(name: string): string | undefined {
  return qualifiedNameProblems(name)[0];
}

/** The minimum for a name that is part of a path. */
export function checkPathSegment(name: string): string | undefined {
  if (name === "." || name === "..") return `may not be '${name}'`;
  if (name.includes("/")) return "may not contain '/'";
  return name.includes("%") ? "may not contain '%'" : undefined;
}

const DNS_1035_FORM = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS_1035 = wholly(DNS_1035_FORM);

export function dns1035Problems(name: string): NameProblems {
  const what =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
    "and end with an alphanumeric character";
  const isRight = DNS_1035.test(name);
  return [
    ...tooLong(name, 63, "characters"),
    ...(isRight ? [] : [formText(what, DNS_1035_FORM, "my-name", "abc-123")]),
  ];
}
