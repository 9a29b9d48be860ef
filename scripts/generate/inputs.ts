import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A definition of the published OpenAPI v2 document. */
export interface RawDefinition {
  readonly properties?: Readonly<Record<string, RawDefinition>>;
  readonly items?: RawDefinition;
  readonly additionalProperties?: RawDefinition;
  readonly [keyword: string]: unknown;
}

/** One field of a protobuf message, as the inputs write it. */
export interface RawField {
  readonly json: string;
  readonly type: string;
  readonly repeated?: boolean;
  /** A zero value is meaningful: absent and zero differ. */
  readonly pointer?: boolean;
  /** The JSON tag has no `omitempty`: a zero value is written. */
  readonly always?: boolean;
}

export interface Inputs {
  readonly definitions: Readonly<Record<string, RawDefinition>>;
  /** Of releases before it that are served, too, by their minors. */
  readonly earlier: Readonly<Record<string, Inputs["definitions"]>>;
  /** Package, message, field number. */
  readonly messages: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, RawField>>>>>>;
}

/** Reads the published facts about Kubernetes' kinds. Returns undefined where `folder` has none. */
export function readInputs(folder: string): Inputs | undefined {
  const definitions = readDocument(folder, "1.36");
  if (definitions === undefined) return undefined;
  const messages = JSON.parse(
    readFileSync(join(folder, "protobuf-fields.json"), "utf8"),
  ) as Inputs["messages"];
  const earlier = readDocument(folder, "1.35");
  return { definitions, messages, earlier: earlier === undefined ? {} : { "1.35": earlier } };
}

/** The document as Kubernetes publishes it: api/openapi-spec/swagger.json of the module k8s.io/kubernetes. */
function readDocument(folder: string, minor: string): Inputs["definitions"] | undefined {
  try {
    const text = readFileSync(join(folder, `openapi-v2-${minor}.json`), "utf8");
    return (JSON.parse(text) as { definitions: Inputs["definitions"] }).definitions;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
