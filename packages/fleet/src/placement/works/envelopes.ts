import { isObject, MAX_NESTING, nestsDeeperThan } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MAX_YAML, readYaml, YamlError } from "@fairlead/kube/yaml/read.ts";
import { ENVELOPE_CONFIG_MAP_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { EnvelopeIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** A placement has content that it may not place: an error of its author, which the conditions of the binding report. */
export class ContentError extends Error {}

export interface OpenedEnvelope {
  readonly envelope: Required<Pick<EnvelopeIdentifier, "name" | "type">> & { readonly namespace?: string };
  readonly manifests: readonly KubeObject[];
}

const GROUP = "placement.kubernetes-fleet.io/";
const MAX_NAME = 63;
/** Longest text of JSON, as long as an API server takes a ConfigMap. Unit: characters. */
const MAX_JSON = 1024 * 1024;

/** The kind of envelope that the object is; undefined if it is not an envelope. */
export function envelopeType(object: KubeObject): OpenedEnvelope["envelope"]["type"] | undefined {
  const { apiVersion = "", kind, metadata } = object;
  if (apiVersion === "v1" && kind === "ConfigMap")
    return metadata.annotations?.[ENVELOPE_CONFIG_MAP_ANNOTATION] === "true" ? kind : undefined;
  if (!apiVersion.startsWith(GROUP)) return undefined;
  return kind === "ClusterResourceEnvelope" || kind === "ResourceEnvelope" ? kind : undefined;
}

/** Opens envelopes, each object once: all clusters get the content of the same one. */
export class Envelopes {
  readonly #hasConfigMaps: boolean;
  readonly #opened = new WeakMap<KubeObject, OpenedEnvelope | ContentError>();

  /** @param hasConfigMaps - Whether ConfigMaps with the annotation are envelopes. Default: they are refused. */
  constructor(hasConfigMaps = false) {
    this.#hasConfigMaps = hasConfigMaps;
  }

  /** Distinguishes what opens envelopes differently. */
  get mode(): string {
    return this.#hasConfigMaps ? "ConfigMaps" : "";
  }

  /** @throws {ContentError} See `openEnvelope`; or ConfigMaps are not opened. */
  open(object: KubeObject): OpenedEnvelope {
    const opened = this.#opened.get(object) ?? this.#read(object);
    this.#opened.set(object, opened);
    if (opened instanceof ContentError) throw opened;
    return opened;
  }

  #read(object: KubeObject): OpenedEnvelope | ContentError {
    const { namespace, name } = object.metadata;
    if (envelopeType(object) === "ConfigMap" && !this.#hasConfigMaps)
      return new ContentError(
        `ConfigMap "${namespace}/${name}" has the annotation ${ENVELOPE_CONFIG_MAP_ANNOTATION}, and this hub does not open ConfigMaps: put the objects into a ResourceEnvelope or a ClusterResourceEnvelope, or start the hub with --configmap-envelopes`,
      );
    try {
      return openEnvelope(object);
    } catch (error) {
      if (error instanceof ContentError) return error;
      throw error;
    }
  }
}

/**
 * The objects in an envelope, in order of their keys. The cost is linear in its size: texts of YAML are bounded in sum.
 *
 * @throws {ContentError} One is not an object, or has another scope or namespace than the envelope.
 */
export function openEnvelope(object: KubeObject): OpenedEnvelope {
  const type = envelopeType(object) ?? "ConfigMap";
  const { name, namespace } = object.metadata;
  // It becomes the value of a label.
  if (name.length > MAX_NAME)
    throw new ContentError(`${type} "${name}": the name has more than ${MAX_NAME} characters`);
  const { data } = object as KubeObject & { data?: unknown };
  const texts = new Texts();
  const manifests = Object.entries(isObject(data) ? data : {})
    .toSorted(([a], [b]) => byText(a, b))
    .map(([key, raw]) => {
      const at = `${type} "${namespace === undefined ? name : `${namespace}/${name}`}": data["${key}"]`;
      const manifest = manifestOf(typeof raw === "string" ? texts.read(raw, at) : raw, at);
      const problem = problemOfScope(namespace, manifest);
      if (problem !== undefined) throw new ContentError(`${at}: ${problem}`);
      return manifest;
    });
  return { envelope: { name, type, ...(namespace === undefined ? {} : { namespace }) }, manifests };
}

/** The texts of one envelope. No error has a part of a text: it may hold a secret. */
class Texts {
  #yamlLeft = MAX_YAML;

  read(text: string, at: string): unknown {
    const json = parsedJson(text);
    if (json !== undefined) return json;
    try {
      const { value, duplicates } = readYaml(text, this.#yamlLeft);
      this.#yamlLeft -= text.length;
      if (duplicates.length === 0) return value;
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      if (error.problem === "tooLong")
        throw new ContentError(
          `${at} is too long: an envelope has at most ${MAX_YAML} characters of YAML in all, and ${MAX_JSON} of JSON in each key`,
        );
      throw new ContentError(`${at} is not YAML or JSON`);
    }
    throw new ContentError(`${at} has a key twice in the same mapping`);
  }
}

/** Undefined for a text that is not JSON. */
function parsedJson(text: string): unknown {
  if (text.length > MAX_JSON || !text.trimStart().startsWith("{")) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function manifestOf(value: unknown, at: string): KubeObject {
  if (!isObject(value) || !isObject(value["metadata"]))
    throw new ContentError(`${at} is not an object with metadata`);
  if (nestsDeeperThan(value, MAX_NESTING))
    throw new ContentError(`${at} is nested deeper than ${MAX_NESTING}`);
  for (const field of ["apiVersion", "kind"])
    if (typeof value[field] !== "string" || value[field] === "")
      throw new ContentError(`${at} has no ${field}`);
  const { name } = value["metadata"];
  if (typeof name !== "string" || name === "") throw new ContentError(`${at} has no metadata.name`);
  return value as unknown as KubeObject;
}

/** @param namespace - Of the envelope; undefined: it is cluster-scoped. */
function problemOfScope(namespace: string | undefined, manifest: KubeObject): string | undefined {
  const inner = namespaceOf(manifest) ?? "";
  const what = `${manifest.kind} "${manifest.metadata.name}"`;
  if (namespace === undefined)
    return inner === ""
      ? undefined
      : `${what} has the namespace "${inner}": only cluster-scoped objects are allowed`;
  if (inner === "")
    return `${what} has no namespace: only objects of the namespace "${namespace}" are allowed`;
  return inner === namespace
    ? undefined
    : `${what} has the namespace "${inner}", the envelope "${namespace}"`;
}

/** Undefined for none. A user may have written anything there. */
export function namespaceOf({ metadata }: KubeObject): string | undefined {
  const namespace: unknown = metadata.namespace;
  if (namespace === undefined || namespace === null || namespace === "") return undefined;
  return typeof namespace === "string" ? namespace : JSON.stringify(namespace);
}
