import { isObject, MAX_NESTING, nestsDeeperThan } from "@fairlead/base/json.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { byText } from "@fairlead/base/text.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { parse } from "yaml";
import { ENVELOPE_CONFIG_MAP_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { EnvelopeIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** The content of an envelope is not what it may be: an error of its author. */
export class EnvelopeError extends Error {}

export interface OpenedEnvelope {
  readonly envelope: Required<Pick<EnvelopeIdentifier, "name" | "type">> & { readonly namespace?: string };
  readonly manifests: readonly KubeObject[];
}

const GROUP = "placement.kubernetes-fleet.io/";
const MAX_NAME = 63;

/** The kind of envelope that the object is; undefined if it is not an envelope. */
export function envelopeType(object: KubeObject): OpenedEnvelope["envelope"]["type"] | undefined {
  const { apiVersion = "", kind, metadata } = object;
  if (apiVersion === "v1" && kind === "ConfigMap")
    return metadata.annotations?.[ENVELOPE_CONFIG_MAP_ANNOTATION] === "true" ? kind : undefined;
  if (!apiVersion.startsWith(GROUP)) return undefined;
  return kind === "ClusterResourceEnvelope" || kind === "ResourceEnvelope" ? kind : undefined;
}

/**
 * The objects in an envelope, in order of their keys.
 *
 * @throws {EnvelopeError} One is not an object, or has another scope or namespace than the envelope.
 */
export function openEnvelope(object: KubeObject): OpenedEnvelope {
  const type = envelopeType(object) ?? "ConfigMap";
  const { name, namespace } = object.metadata;
  // It becomes the value of a label.
  if (name.length > MAX_NAME)
    throw new EnvelopeError(`${type} "${name}": the name has more than ${MAX_NAME} characters`);
  const { data } = object as KubeObject & { data?: unknown };
  const manifests = Object.entries(isObject(data) ? data : {})
    .toSorted(([a], [b]) => byText(a, b))
    .map(([key, raw]) => {
      const at = `${type} "${namespace === undefined ? name : `${namespace}/${name}`}": data["${key}"]`;
      const manifest = manifestOf(typeof raw === "string" ? parsed(raw, at) : raw, at);
      const problem = problemOfScope(type, namespace, manifest);
      if (problem !== undefined) throw new EnvelopeError(`${at}: ${problem}`);
      return manifest;
    });
  return { envelope: { name, type, ...(namespace === undefined ? {} : { namespace }) }, manifests };
}

function parsed(text: string, at: string): unknown {
  try {
    // Without an excerpt of the text in the error: it may hold a secret.
    return parse(text, { prettyErrors: false });
  } catch (error) {
    throw new EnvelopeError(`${at} is not YAML or JSON: ${messageOf(error)}`);
  }
}

function manifestOf(value: unknown, at: string): KubeObject {
  if (!isObject(value) || !isObject(value["metadata"]))
    throw new EnvelopeError(`${at} is not an object with metadata`);
  if (nestsDeeperThan(value, MAX_NESTING))
    throw new EnvelopeError(`${at} is nested deeper than ${MAX_NESTING}`);
  for (const field of ["apiVersion", "kind"])
    if (typeof value[field] !== "string" || value[field] === "")
      throw new EnvelopeError(`${at} has no ${field}`);
  const { name } = value["metadata"];
  if (typeof name !== "string" || name === "") throw new EnvelopeError(`${at} has no metadata.name`);
  return value as unknown as KubeObject;
}

function problemOfScope(
  type: OpenedEnvelope["envelope"]["type"],
  namespace: string | undefined,
  { kind, metadata }: KubeObject,
): string | undefined {
  const inner = metadata.namespace ?? "";
  const what = `${kind} "${metadata.name}"`;
  switch (type) {
    case "ClusterResourceEnvelope":
      return inner === ""
        ? undefined
        : `${what} has the namespace "${inner}": only cluster-scoped objects are allowed`;
    case "ResourceEnvelope":
      if (inner === "")
        return `${what} has no namespace: only objects of the namespace "${namespace}" are allowed`;
      return inner === namespace ? undefined : otherNamespace(what, inner, namespace);
    case "ConfigMap":
      return inner === "" || inner === namespace ? undefined : otherNamespace(what, inner, namespace);
    default:
      return type satisfies never;
  }
}

function otherNamespace(what: string, inner: string, namespace: string | undefined): string {
  return `${what} has the namespace "${inner}", the envelope "${namespace}"`;
}
