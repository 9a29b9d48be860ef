import { canonicalQuantity } from "./quantity.ts";

/** A value that is none of the special type's. */
export class SpecialMismatch extends Error {
  /** The Go type that was wanted, where the JSON type is wrong; undefined where the text is. */
  readonly goType: string | undefined;
  constructor(message: string, goType?: string) {
    super(message);
    this.goType = goType;
  }
}

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d{1,9})?(Z|[+-]\d\d:\d\d)$/;
const SECONDS = "2006-01-02T15:04:05Z07:00";
const MICROS = "2006-01-02T15:04:05.000000Z07:00";

function timeOf(value: unknown, layout: string): { ms: number; fraction: string } {
  if (typeof value !== "string") throw new SpecialMismatch("not a time", "string");
  const parts = RFC3339.exec(value);
  const ms = parts === null ? Number.NaN : Date.parse(value.replace(/[.,]\d+/, ""));
  // A day that its month does not have would run over into the next.
  const day =
    parts === null
      ? Number.NaN
      : new Date(Date.UTC(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]))).getUTCDate();
  if (parts === null || Number.isNaN(ms) || day !== Number(parts[3])) {
    throw new SpecialMismatch(
      `parsing time ${JSON.stringify(value)} as ${JSON.stringify(layout)}: cannot parse ${JSON.stringify(value)} as ${JSON.stringify(layout)}`,
    );
  }
  return { ms, fraction: (parts[7] ?? ".").slice(1).padEnd(6, "0").slice(0, 6) };
}

function toSeconds(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19);
}

function decodeTime(value: unknown): string {
  return `${toSeconds(timeOf(value, SECONDS).ms)}Z`;
}

function decodeMicroTime(value: unknown): string {
  const { ms, fraction } = timeOf(value, MICROS);
  return `${toSeconds(ms)}.${fraction}Z`;
}

const QUANTITY_FORM =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

function decodeQuantity(value: unknown): string {
  const isText = typeof value === "string" || typeof value === "number";
  const canonical = isText ? canonicalQuantity(String(value).trim()) : undefined;
  if (canonical === undefined) throw new SpecialMismatch(QUANTITY_FORM);
  return canonical;
}

function decodeIntOrString(value: unknown): string | number {
  if (typeof value === "string") return value;
  const isInt32 = Number.isInteger(value) && Number(value) >= -(2 ** 31) && Number(value) < 2 ** 31;
  if (!isInt32) throw new SpecialMismatch("not an int or a string", "int32");
  return Number(value);
}

function anyJson(value: unknown): unknown {
  return value;
}

const META = "io.k8s.apimachinery.pkg.apis.meta.v1";
const APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/** Types whose JSON form is not that of their fields, by the name of their definition. */
export const BUILTIN_SPECIALS: ReadonlyMap<string, (value: unknown) => unknown> = new Map<
  string,
  (value: unknown) => unknown
>([
  [`${META}.Time`, decodeTime],
  [`${META}.MicroTime`, decodeMicroTime],
  [`${META}.FieldsV1`, anyJson],
  ["io.k8s.apimachinery.pkg.api.resource.Quantity", decodeQuantity],
  ["io.k8s.apimachinery.pkg.util.intstr.IntOrString", decodeIntOrString],
  ["io.k8s.apimachinery.pkg.runtime.RawExtension", anyJson],
  [`${APIEXTENSIONS}.JSON`, anyJson],
]);
