import { createHash } from "node:crypto";
import { isObject, jsonKey } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { LAST_APPLIED_ANNOTATION, SPEC_HASH_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { WorkIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { type Candidate, refusalOf } from "./refusal.ts";
import type { ResultReason } from "./result.ts";

/** A manifest of a Work, as it is to be in the member. */
export interface Manifest {
  readonly ordinal: number;
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
  /** What identifies the object in the member, whatever the version that the manifest is written in. */
  readonly id: string;
  /** Without what only the server of an object writes. */
  readonly object: KubeObject;
  /** Of `object`: two manifests with one hash say the same. */
  readonly hash: string;
}

/** A manifest that is not applied, whatever the member has. */
export interface RefusedManifest {
  readonly identifier: WorkIdentifier;
  readonly reason: ResultReason;
  readonly message: string;
}

export interface Manifests {
  readonly manifests: readonly Manifest[];
  readonly refused: readonly RefusedManifest[];
}

/** @param within - The only namespace that the objects may be in; undefined: they may have any scope. */
export function readManifests(objects: readonly unknown[], within?: string): Manifests {
  const manifests: Manifest[] = [];
  const refused: RefusedManifest[] = [];
  const ids = new Set<string>();
  for (const [ordinal, object] of objects.entries()) {
    const read = readManifest(ordinal, object, within);
    if ("reason" in read) refused.push(read);
    else if (ids.has(read.id))
      refused.push({
        identifier: identifierOf(read),
        reason: "Duplicated",
        message: `${nameOf(read)} is in this Work more than once; only the first one is applied`,
      });
    else {
      ids.add(read.id);
      manifests.push(read);
    }
  }
  return { manifests, refused };
}

/** The identity of an object, however it is written. */
export function idOf({
  group = "",
  kind = "",
  namespace = "",
  name = "",
}: {
  readonly group?: string | undefined;
  readonly kind?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}): string {
  return `${group}/${kind}/${namespace}/${name}`;
}

export function identifierOf(manifest: Manifest, resource?: string): WorkIdentifier {
  const { ordinal, group, version, kind, namespace, name } = manifest;
  return {
    ordinal,
    ...(group === "" ? {} : { group }),
    version,
    kind,
    ...(resource === undefined ? {} : { resource }),
    ...(namespace === undefined ? {} : { namespace }),
    name,
  };
}

/** For people: "Deployment shop/web". */
export function nameOf({ kind, namespace, name }: Pick<Manifest, "kind" | "namespace" | "name">): string {
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

function readManifest(
  ordinal: number,
  value: unknown,
  within: string | undefined,
): Manifest | RefusedManifest {
  const object = isObject(value) && !isDeeper(value, MAX_DEPTH) ? value : {};
  const metadata = isObject(object["metadata"]) ? object["metadata"] : {};
  const known = namesIn(object, metadata);
  const problem = problemOf(known, metadata) ?? refusalProblem({ ...known, object }, within);
  if (problem !== undefined) {
    const given = Object.entries(known).filter(([, it]) => it !== undefined && it !== "");
    return { identifier: { ordinal, ...Object.fromEntries(given) }, ...problem };
  }
  const desired = desiredObject(object, metadata);
  const hash = createHash("sha256").update(jsonKey(desired)).digest("hex");
  return { ordinal, ...known, id: idOf(known), object: desired, hash };
}

type Names = Pick<Manifest, "group" | "version" | "kind" | "namespace" | "name">;
type Problem = Pick<RefusedManifest, "reason" | "message">;

function namesIn(object: Record<string, unknown>, metadata: Record<string, unknown>): Names {
  const apiVersion = text(object["apiVersion"]);
  const slash = apiVersion.indexOf("/");
  const namespace = text(metadata["namespace"]);
  return {
    group: slash < 0 ? "" : apiVersion.slice(0, slash),
    version: apiVersion.slice(slash + 1),
    kind: text(object["kind"]),
    namespace: namespace === "" ? undefined : namespace,
    name: text(metadata["name"]),
  };
}

function problemOf(names: Names, metadata: Record<string, unknown>): Problem | undefined {
  const { version, kind, namespace = "", name } = names;
  const generateName = text(metadata["generateName"]);
  if (generateName !== "" && name === "")
    return {
      reason: "FoundGenerateName",
      message: `the manifest has metadata.generateName ${quote(generateName)} and no name: set metadata.name`,
    };
  const required = { apiVersion: version, kind, "metadata.name": name };
  const missing = Object.entries(required).flatMap(([field, value]) => (value === "" ? [field] : []));
  if (missing.length > 0)
    return {
      reason: "DecodingErred",
      message: `the manifest is not a Kubernetes object: it has no ${missing.join(", ")}`,
    };
  const bad = [name, namespace].find((it) => !isPathSegment(it));
  if (bad === undefined) return undefined;
  return {
    reason: "DecodingErred",
    message: `${quote(bad)} is not a name: it is "." or "..", or contains "/" or "%"`,
  };
}

function refusalProblem(candidate: Candidate, within: string | undefined): Problem | undefined {
  const message = refusalOf(candidate, within);
  return message === undefined ? undefined : { reason: "ManifestApplyFailed", message };
}

/** Fields that the API server writes, and owners, which are those of the hub. */
const SERVER_METADATA = new Set([
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "managedFields",
  "ownerReferences",
  "generateName",
]);
/** What the applier writes itself. */
export const OWN_ANNOTATIONS: ReadonlySet<string> = new Set([LAST_APPLIED_ANNOTATION, SPEC_HASH_ANNOTATION]);

function desiredObject(object: Record<string, unknown>, metadata: Record<string, unknown>): KubeObject {
  const { status: _, ...rest } = object;
  const kept = Object.fromEntries(Object.entries(metadata).filter(([key]) => !SERVER_METADATA.has(key)));
  const annotations = withoutOwn(kept["annotations"]);
  if (annotations === undefined) delete kept["annotations"];
  else kept["annotations"] = annotations;
  return withDataOf({ ...rest, metadata: kept } as unknown as KubeObject);
}

/** Annotations without those of the applier; undefined if none are left. */
export function withoutOwn(annotations: unknown): Record<string, unknown> | undefined {
  if (!isObject(annotations)) return undefined;
  const kept = Object.entries(annotations).filter(([key]) => !OWN_ANNOTATIONS.has(key));
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** `stringData` of a Secret is written only: read, it is in `data`. */
function withDataOf(object: KubeObject): KubeObject {
  const { stringData, ...rest } = object as KubeObject & { stringData?: unknown; data?: unknown };
  if (!isSecret(object) || !isObject(stringData)) return object;
  const data = Object.entries(stringData).map(
    ([key, value]) => [key, Buffer.from(String(value)).toString("base64")] as const,
  );
  return {
    ...rest,
    data: { ...(isObject(rest.data) ? rest.data : {}), ...Object.fromEntries(data) },
  } as KubeObject;
}

export function isSecret({ apiVersion, kind }: KubeObject): boolean {
  return apiVersion === "v1" && kind === "Secret";
}

/** Levels of maps and lists: more than any schema has, and fewer than a walk can follow. */
const MAX_DEPTH = 500;

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((it) => isDeeper(it, levels - 1));
}

/** Source: apimachinery, pkg/api/validation/path. */
function isPathSegment(segment: string): boolean {
  return segment !== "." && segment !== ".." && !/[/%]/.test(segment);
}
function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
function quote(value: string): string {
  return JSON.stringify(value.slice(0, 100));
}
