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
  /** Package, message, field number. */
  readonly messages: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, RawField>>>>>>;
}

/** Reads the published facts about Kubernetes' kinds. Returns undefined where `folder` has none. */
export function readInputs(folder: string): Inputs | undefined {
  try {
    const document = JSON.parse(readFileSync(join(folder, "openapi-v2-1.36.json"), "utf8")) as {
      definitions: Inputs["definitions"];
    };
    const messages = JSON.parse(
      readFileSync(join(folder, "protobuf-fields.json"), "utf8"),
    ) as Inputs["messages"];
    return { definitions: document.definitions, messages };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
