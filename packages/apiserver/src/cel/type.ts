/** Types of the Common Expression Language as its checker sees them. Source: cel-spec, "Gradual type checking". */

export type Kind =
  | "dyn"
  | "error"
  | "null_type"
  | "bool"
  | "int"
  | "uint"
  | "double"
  | "string"
  | "bytes"
  | "duration"
  | "timestamp"
  | "list"
  | "map"
  | "type"
  | "param"
  | "opaque"
  | "struct";

export interface CelType {
  readonly kind: Kind;
  readonly name: string;
  /** Of a list its items, of a map its keys and values, of an opaque type whatever it is of. */
  readonly params: readonly CelType[];
  /** Of a struct; undefined where nothing is known of its fields. */
  readonly fields?: ReadonlyMap<string, CelType>;
}

function simple(kind: Kind, name: string = kind): CelType {
  return { kind, name, params: [] };
}

export const DYN = simple("dyn");
export const ERROR = simple("error", "!error!");
export const NULL = simple("null_type");
export const BOOL = simple("bool");
export const INT = simple("int");
export const UINT = simple("uint");
export const DOUBLE = simple("double");
export const STRING = simple("string");
export const BYTES = simple("bytes");
export const DURATION = simple("duration", "google.protobuf.Duration");
export const TIMESTAMP = simple("timestamp", "google.protobuf.Timestamp");
export const TYPE = simple("type");

export function listOf(item: CelType): CelType {
  return { kind: "list", name: "list", params: [item] };
}

export function mapOf(key: CelType, value: CelType): CelType {
  return { kind: "map", name: "map", params: [key, value] };
}

export function optionalOf(value: CelType): CelType {
  return opaque("optional_type", [value]);
}

export function typeOfType(type: CelType): CelType {
  return { kind: "type", name: "type", params: [type] };
}

export function opaque(name: string, params: readonly CelType[] = []): CelType {
  return { kind: "opaque", name, params };
}

export function structOf(name: string, fields?: ReadonlyMap<string, CelType>): CelType {
  return { kind: "struct", name, params: [], ...(fields && { fields }) };
}

export function paramType(name: string): CelType {
  return simple("param", name);
}

export function isOptional(type: CelType): boolean {
  return type.kind === "opaque" && type.name === "optional_type";
}

/** The type inside an optional; any other type is returned as is. */
export function unwrapOptional(type: CelType): CelType {
  return isOptional(type) ? paramAt(type, 0) : type;
}

export function paramAt(type: CelType, at: number): CelType {
  return type.params[at] ?? DYN;
}

/** Whether two types are the same in all their parts. */
export function isSameType(a: CelType, b: CelType): boolean {
  if (a === b) return true;
  return (
    a.kind === b.kind &&
    a.name === b.name &&
    a.params.length === b.params.length &&
    a.params.every((it, at) => isSameType(it, paramAt(b, at)))
  );
}

const SHORT: Partial<Record<Kind, string>> = {
  duration: "duration",
  timestamp: "timestamp",
  null_type: "null",
};

/** A type as problems name it. */
export function formatType(type: CelType): string {
  const short = SHORT[type.kind];
  if (short !== undefined) return short;
  return type.params.length === 0 ? type.name : `${type.name}(${type.params.map(formatType).join(", ")})`;
}

/** The arguments of a call as problems name them. */
export function formatCall(args: readonly CelType[], isMember: boolean): string {
  const texts = args.map(formatType);
  const target = isMember ? `${texts.shift() ?? ""}.` : "";
  return `${target}(${texts.join(", ")})`;
}
