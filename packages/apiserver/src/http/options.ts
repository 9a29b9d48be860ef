import type { FieldValidation } from "#registry/shape.ts";
import { type FieldError, invalid, type StatusError } from "#status.ts";
import type { Exchange } from "./exchange.ts";

/** The write options in the query. Source: `metav1.CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions`. */

type Asked = Pick<Exchange, "method" | "query">;

const MAX_MANAGER_LENGTH = 128;

const KINDS: Readonly<Record<string, string>> = {
  POST: "CreateOptions",
  PUT: "UpdateOptions",
  PATCH: "PatchOptions",
  DELETE: "DeleteOptions",
};

/** The kind that the options of a method are of. */
export function optionsKind(method: string): string {
  return KINDS[method] ?? "CreateOptions";
}

/** 422 of the options, which have no name. */
export function refuseOptions(method: string, ...errors: readonly FieldError[]): StatusError {
  return invalid("meta.k8s.io", optionsKind(method), "", errors);
}

export function notSupported(field: string, value: unknown, supported: readonly string[]): FieldError {
  const list = supported.map((it) => JSON.stringify(it)).join(", ");
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${list}`;
  return { type: "FieldValueNotSupported", field, message };
}

/** Whether it is one. `values` are those of the query or of a body. */
export function checkDryRun(method: string, values: readonly unknown[]): boolean {
  if (values.length === 0) return false;
  if (values.every((it) => it === "All")) return true;
  throw refuseOptions(method, notSupported("dryRun", values, ["All"]));
}

export function parseDryRun({ method, query }: Asked): boolean {
  return checkDryRun(method, query.getAll("dryRun"));
}

/** The name given, or the client's program: User-Agent up to the first slash. */
export function parseFieldManager({ method, query, request }: Exchange): string {
  // DELETE has no such option.
  const given = method === "DELETE" ? "" : (query.get("fieldManager") ?? "");
  const field = "fieldManager";
  if (Buffer.byteLength(given) > MAX_MANAGER_LENGTH) {
    const message = `Too long: may not be more than ${MAX_MANAGER_LENGTH} bytes`;
    throw refuseOptions(method, { type: "FieldValueTooLong", field, message });
  }
  const at = given.search(/[\p{C}\p{Zl}\p{Zp}]/u);
  if (at >= 0) {
    const code = (given.codePointAt(at) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    const message = `Invalid value: ${quoteAsGo(given)}: invalid character U+${code} (at position ${at})`;
    throw refuseOptions(method, { type: "FieldValueInvalid", field, message });
  }
  if (given !== "") return given;
  const agent = request.headers["user-agent"] ?? "";
  return (agent.split("/", 1)[0] ?? "").slice(0, MAX_MANAGER_LENGTH) || "unknown";
}

export function parseFieldValidation({ method, query }: Asked): FieldValidation {
  const given = query.get("fieldValidation") ?? "";
  if (given === "") return "Warn";
  if (given === "Strict" || given === "Warn" || given === "Ignore") return given;
  throw refuseOptions(method, notSupported("fieldValidation", given, ["", "Ignore", "Strict", "Warn"]));
}

const GO_ESCAPES: Readonly<Record<string, string>> = { "\u0007": String.raw`\a`, "\u000b": String.raw`\v` };

/** As Go's %q, which knows more short escapes than JSON. */
function quoteAsGo(text: string): string {
  const quoted = JSON.stringify(text);
  return quoted
    .replaceAll(String.raw`\u0007`, GO_ESCAPES["\u0007"] ?? "")
    .replaceAll(String.raw`\u000b`, GO_ESCAPES["\u000b"] ?? "");
}
