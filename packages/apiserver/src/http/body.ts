import { isObject } from "@fairlead/base/json.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import { compactLength } from "#schema/compact-length.ts";
import { type Parsed, parseJsonSteps } from "#schema/json.ts";
import { parseMerged } from "#schema/json-merged.ts";
import { decodeProtobuf } from "#schema/protobuf.ts";
import { parseYamlSteps } from "#schema/yaml.ts";
import { MAX_OBJECT_BYTES } from "#registry/size.ts";
import { badRequest, tooLarge, unsupportedMediaType } from "#status.ts";

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
  return finish(parseBodySteps(body, type, implied));
}

export function* parseBodySteps(body: Buffer, type: string, implied?: ImpliedKind): Steps<ParsedBody> {
  const decoded = yield* decode(body, type, implied);
  // As Go has it, null is an object without fields.
  const [value, duplicates] = [decoded.value ?? {}, decoded.duplicates];
  if (!isObject(value)) throw badRequest("the body of the request is not an object");
  return { value, duplicates };
}

function* decode(body: Buffer, type: string, implied: ImpliedKind | undefined): Steps<Parsed> {
  switch (type) {
    case "application/json":
      return yield* parseTyped(utf8(body), implied?.isCustom !== false);
    case "application/yaml":
    case "application/x-yaml":
    case "text/yaml":
      return yield* parseYamlSteps(utf8(body));
    case "application/vnd.kubernetes.protobuf":
      return { value: decodeProtobuf(body, implied), duplicates: [] };
    default:
      throw unsupportedMediaType(
        `the body of the request was in an unknown format - accepted media types include: ${DECODABLE.join(", ")}`,
      );
  }
}

function* parseTyped(text: string, isUntyped: boolean): Steps<Parsed> {
  const parsed = yield* parseJsonSteps(text);
  if (isUntyped || parsed.duplicates.length === 0) return parsed;
  yield;
  return { ...parsed, value: parseMerged(text) };
}

/** The first byte of "k8s", which begins a body in protobuf. */
const PROTOBUF_MAGIC = 0x6b;

/** A byte order mark is for the parser to refuse or to take. */
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function utf8(body: Buffer): string {
  try {
    return UTF8.decode(body);
  } catch {
    throw badRequest("the body of the request is not valid UTF-8");
  }
}

/**
 * Refuses an object that is too large to be stored before anything else is done with it.
 *
 * @throws {StatusError} 413.
 */
export function refuseUnstorable(body: Buffer): void {
  if (body.length <= MAX_OBJECT_BYTES) return;
  // Protobuf has neither blanks nor escapes.
  const bytes = body[0] === PROTOBUF_MAGIC ? body.length : compactLength(body.toString("latin1"));
  if (bytes <= MAX_OBJECT_BYTES) return;
  throw tooLarge(`Request entity too large: the object has ${bytes} bytes, limit is ${MAX_OBJECT_BYTES}`);
}
