import { canonicalQuantity } from "@fairlead/kube/api/meta/canonical-quantity.ts";

/** A value that the special type cannot have. */
export class SpecialMismatch extends Error {
  /** The Go type that was wanted, where the JSON type is wrong; undefined where the text is. */
  readonly goType: string | undefined;
  constructor(message: string, goType?: string) {
    super(message);
    this.goType = goType;
  }
}

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d{1,9})?(Z|[+-]\d\d:\d\d)$/;
/** Of MicroTime, which has all of its digits. */
const RFC3339_MICROS = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d{6})(Z|[+-]\d\d:\d\d)$/;
const SECONDS = "2006-01-02T15:04:05Z07:00";
const MICROS = "2006-01-02T15:04:05.000000Z07:00";

function timeOf(value: unknown, layout: string): { ms: number; fraction: string } {
  if (typeof value !== "string") throw new SpecialMismatch("not a time", "string");
  const parts = (layout === MICROS ? RFC3339_MICROS : RFC3339).exec(value);
  const ms = parts === null ? Number.NaN : Date.parse(value.replace(/[.,]\d+/, ""));
  // A day that its month does not have would run over into the next.
  const day =
    parts === null
      ? Number.NaN
      : new Date(Date.UTC(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]))).getUTCDate();
  if (parts === null || Number.isNaN(ms) || day !== Number(parts[3])) {
    const as = `parsing time ${JSON.stringify(value)} as ${JSON.stringify(layout)}`;
    throw new SpecialMismatch(as + whyNoTime(value, layout));
  }
  return { ms, fraction: (parts[7] ?? ".").slice(1).padEnd(6, "0").slice(0, 6) };
}

/** Where Go's parser stops: at the first element of the layout that does not follow. */
function whyNoTime(value: string, layout: string): string {
  let rest = value;
  for (const [element] of layout.matchAll(/Z07:00|\.0+|\d+|./g)) {
    const found = timeElement(element).exec(rest);
    if (found === null) return `: cannot parse ${JSON.stringify(rest)} as ${JSON.stringify(element)}`;
    rest = rest.slice(found[0].length);
    // Fractions of a second may follow whatever the layout says.
    if (element === "05" && !layout.includes(".")) rest = rest.replace(/^[.,]\d{1,9}/, "");
  }
  if (rest !== "") return `: extra text: ${JSON.stringify(rest)}`;
  const month = Number(value.slice(5, 7));
  return month < 1 || month > 12 ? ": month out of range" : ": day out of range";
}

function timeElement(element: string): RegExp {
  if (element === "Z07:00") return /^(?:Z|[+-]\d\d:\d\d)/;
  if (element.startsWith(".")) return /^[.,]\d{6}/;
  return /^\d/.test(element) ? new RegExp(`^\\d{${element.length}}`) : new RegExp(`^${element}`);
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
  const isText = ["string", "number", "bigint"].includes(typeof value);
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
