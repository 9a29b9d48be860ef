import { isObject } from "@fairlead/base/json.ts";
import { parseJson } from "#schema/json.ts";
import { parseMerged } from "#schema/json-merged.ts";
import { decodeProtobuf } from "#schema/protobuf.ts";
import { parseYaml } from "#schema/yaml.ts";
import { badRequest, unsupportedMediaType } from "#status.ts";

export interface ParsedBody {
  readonly value: Record<string, unknown>;
  /** Paths of duplicate keys. */
  readonly duplicates: readonly string[];
}

/** "application/json; charset=utf-8" → "application/json". Nothing means JSON. */
export function mediaType(header: string | undefined): string {
  const type = (header ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  return type === "" ? "application/json" : type;
}

const DECODABLE = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/** The default kind and version of an object without them. */
export interface ImpliedKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly isCustom: boolean;
}

/**
 * Reads an object out of a body.
 *
 * @throws {StatusError} 400 when it cannot be decoded, 415 for a type that is not taken.
 */
export function parseBody(body: Buffer, type: string, implied?: ImpliedKind): ParsedBody {
  const decoded = decode(body, type, implied);
  // As Go has it, null is an object without fields.
  const [value, duplicates] = [decoded.value ?? {}, decoded.duplicates];
  if (!isObject(value)) throw badRequest("the body of the request is not an object");
  return { value, duplicates };
}

function decode(
  body: Buffer,
  type: string,
  implied: ImpliedKind | undefined,
): { value: unknown; duplicates: readonly string[] } {
  switch (type) {
    case "application/json":
      return parseTyped(utf8(body), implied?.isCustom !== false);
    case "application/yaml":
    case "application/x-yaml":
    case "text/yaml":
      return parseYaml(utf8(body));
    case "application/vnd.kubernetes.protobuf":
      return { value: decodeProtobuf(body, implied), duplicates: [] };
    default:
      throw unsupportedMediaType(
        `the body of the request was in an unknown format - accepted media types include: ${DECODABLE.join(", ")}`,
      );
  }
}

function parseTyped(text: string, isUntyped: boolean): ReturnType<typeof parseJson> {
  const parsed = parseJson(text);
  if (isUntyped || parsed.duplicates.length === 0) return parsed;
  return { ...parsed, value: parseMerged(text) };
}

/** A byte order mark is for the parser to refuse or to take. */
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function utf8(body: Buffer): string {
  try {
    return UTF8.decode(body);
  } catch {
    throw badRequest("the body of the request is not valid UTF-8");
  }
}
