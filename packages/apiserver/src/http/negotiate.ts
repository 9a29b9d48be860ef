import { notAcceptable } from "#status.ts";

/** How the client wants an answer. */
export interface Accepted {
  readonly format: "json" | "yaml";
  /** Another kind than the object's own. */
  readonly as: "Table" | "PartialObjectMetadata" | undefined;
  /** Version of meta.k8s.io for `as`. */
  readonly metaVersion: "v1" | "v1beta1";
  /** Whether metadata is asked for as that of a list. */
  readonly asList?: boolean;
  /** Whether the client would rather have protobuf: what that does not distinguish is answered as it would read it. */
  readonly prefersProtobuf?: boolean;
}

interface Clause {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

const PLAIN: Accepted = { format: "json", as: undefined, metaVersion: "v1" };

const FORMATS: ReadonlyMap<string, Accepted["format"]> = new Map([
  ["*/*", "json"],
  ["application/*", "json"],
  ["application/json", "json"],
  ["application/yaml", "yaml"],
  ["application/x-yaml", "yaml"],
  ["text/yaml", "yaml"],
]);

const PROTOBUF = "application/vnd.kubernetes.protobuf";

const SUPPORTED = ["application/json", "application/yaml"];

/** The clauses of an Accept header, best first. */
function parseAccept(header: string): readonly Clause[] {
  return header
    .split(",")
    .map(parseClause)
    .filter((it) => it.type !== "" && it.quality > 0)
    .toSorted((a, b) => b.quality - a.quality);
}

function parseClause(text: string): Clause {
  const [type = "", ...rest] = text.split(";").map((it) => it.trim());
  const parameters = new Map(
    rest.map((it) => {
      const equals = it.indexOf("=");
      if (equals < 0) return [it, ""];
      return [it.slice(0, equals).trim(), it.slice(equals + 1).trim()];
    }),
  );
  const quality = Number(parameters.get("q") ?? 1);
  return { type: type.toLowerCase(), parameters, quality: Number.isNaN(quality) ? 1 : quality };
}

/**
 * The first clause that can be served. Protobuf is never sent: clients that prefer it name JSON behind it, and read
 * what the answer's Content-Type says.
 *
 * @throws {StatusError} 406 when none can.
 */
export function negotiate(header: string | undefined): Accepted {
  if (header === undefined || header.trim() === "") return PLAIN;
  const clauses = parseAccept(header);
  const prefersProtobuf = clauses[0]?.type === PROTOBUF;
  for (const { type, parameters } of clauses) {
    const format = FORMATS.get(type);
    if (format === undefined) continue;
    const as = parameters.get("as");
    if (as === undefined) return { ...PLAIN, format, ...(prefersProtobuf ? { prefersProtobuf } : {}) };
    const known = acceptedKind(as, parameters);
    if (known !== undefined) return { ...known, format };
  }
  throw notAcceptable(SUPPORTED);
}

/**
 * As `negotiate`, for answers that are of one kind only.
 *
 * @throws {StatusError} 406 when none of `formats` can be taken.
 */
export function negotiateFormat(
  header: string | undefined,
  formats: readonly Accepted["format"][] = ["json", "yaml"],
): Accepted["format"] {
  if (header === undefined || header.trim() === "") return "json";
  for (const { type, parameters } of parseAccept(header)) {
    const format = FORMATS.get(type);
    if (format !== undefined && !parameters.has("as") && formats.includes(format)) return format;
  }
  throw notAcceptable(formats.map((it) => `application/${it}`));
}

function acceptedKind(as: string, parameters: ReadonlyMap<string, string>): Accepted | undefined {
  const version = parameters.get("v") ?? "v1";
  if (parameters.get("g") !== "meta.k8s.io" || (version !== "v1" && version !== "v1beta1")) return undefined;
  if (as === "Table") return { format: "json", as, metaVersion: version };
  if (as !== "PartialObjectMetadata" && as !== "PartialObjectMetadataList") return undefined;
  const asList = as === "PartialObjectMetadataList";
  return { format: "json", as: "PartialObjectMetadata", metaVersion: version, asList };
}

/** Whether the client takes aggregated discovery, which must be named exactly (KEP-3352). */
export function acceptsAggregated(header: string | undefined): "v2" | undefined {
  for (const { type, parameters } of parseAccept(header ?? "")) {
    if (type !== "application/json" && type !== "*/*") continue;
    const as = parameters.get("as");
    if (as === undefined) return undefined;
    if (as !== "APIGroupDiscoveryList" || parameters.get("g") !== "apidiscovery.k8s.io") continue;
    if (parameters.get("v") === "v2") return "v2";
  }
  return undefined;
}
