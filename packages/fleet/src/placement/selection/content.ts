import { createHash } from "node:crypto";
import { jsonKey } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ENVELOPE_CONFIG_MAP_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import { cleaned } from "./cleaning.ts";
import { ENVELOPE_KINDS, PLACEMENT_GROUP } from "./rules.ts";

/** An object as it is placed, as text: a tenth of the memory of the object. */
export interface Content {
  /** JSON, with sorted keys: two contents that say the same are the same text. */
  readonly json: string;
  /** Of `json`, in UTF-8. */
  readonly bytes: number;
  /** SHA-256 of `json`, in base64. */
  readonly digest: string;
  /** Whether it wraps further objects, which are placed in its stead. */
  readonly isEnvelope: boolean;
}

/** What is kept of an object that placements may select. */
export interface Selectable extends KubeObject {
  /** Undefined for what is never placed. */
  readonly content?: Content;
}

export function contentOf(object: KubeObject): Content {
  const json = jsonKey(cleaned(object));
  return {
    json,
    bytes: Buffer.byteLength(json),
    digest: createHash("sha256").update(json).digest("base64"),
    isEnvelope: isEnvelope(object),
  };
}

function isEnvelope({ apiVersion = "", kind = "", metadata }: KubeObject): boolean {
  if (kind === "ConfigMap")
    return apiVersion === "v1" && metadata.annotations?.[ENVELOPE_CONFIG_MAP_ANNOTATION] !== undefined;
  return apiVersion.startsWith(`${PLACEMENT_GROUP}/`) && ENVELOPE_KINDS.has(kind);
}
