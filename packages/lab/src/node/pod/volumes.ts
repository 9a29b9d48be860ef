import { defined } from "@fairlead/base/defined.ts";
import type {
  DownwardFile,
  KeyToPath,
  Pod,
  Volume,
  VolumeProjection,
} from "@fairlead/kube/api/core/v1/types.ts";
import { type PodPlace, readField, readResource } from "./downward.ts";
import { countQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { ConfigError, type ConfigSources } from "./environment.ts";
import { fsGroupOf, fsUserOf } from "./identity.ts";

/** What a pod's volumes hold. Pure. */

export interface VolumeFile {
  readonly content: Buffer;
  readonly mode: number;
  /** The owner; undefined if it is root. */
  readonly uid?: number;
}

export type VolumePlan =
  /** An empty folder that belongs to the pod; on its own tmpfs if it is bounded. */
  | { readonly kind: "empty"; readonly inMemory: boolean; readonly sizeBytes: number | undefined }
  /** Files that the kubelet writes and keeps up to date, by their path in the volume. */
  | { readonly kind: "files"; readonly files: ReadonlyMap<string, VolumeFile> };

/** A token that a projected volume wants. */
export interface TokenWish {
  /** Empty for the API server's own. */
  readonly audience: string;
  readonly expirationSeconds: number;
}

export interface VolumeInput {
  readonly pod: Pod;
  readonly place: PodPlace;
  readonly sources: ConfigSources;
  /** The token for a wish; undefined until it is issued. */
  readonly token: (wish: TokenWish) => string | undefined;
  /** The node's. */
  readonly capacity: Readonly<Record<string, string>>;
}

/** @throws {ConfigError} when the volume cannot be given, or what it needs is not there yet. */
export function planVolume(volume: Volume, input: VolumeInput): VolumePlan {
  checkKind(volume);
  const sources = projectionsOf(volume);
  if (sources === undefined) return planEmpty(volume);
  const files = new Map<string, VolumeFile>();
  for (const [path, { mode, ...file }] of sources.flatMap((it) => projectedFiles(it, input))) {
    checkRelative(volume.name, path);
    files.set(path, { ...file, mode: mode ?? defaultMode(volume) });
  }
  return { kind: "files", files };
}

const KINDS = new Set(["name", "emptyDir", "configMap", "secret", "projected", "downwardAPI"]);

function checkKind(volume: Volume): void {
  const others = Object.keys(volume).filter((key) => !KINDS.has(key));
  if (others.length === 0) return;
  const why = others.includes("hostPath")
    ? "hostPath is refused: nodes of the lab share their file system with the machine"
    : `nodes of the lab have no volumes of the kind ${others.join(", ")}`;
  throw new ConfigError(why);
}

function planEmpty({ emptyDir }: Volume): VolumePlan {
  const sizeBytes = emptyDir?.sizeLimit === undefined ? undefined : countQuantity(emptyDir.sizeLimit);
  const isBounded = sizeBytes !== undefined && sizeBytes > 0;
  const inMemory = emptyDir?.medium === "Memory" || isBounded;
  return { kind: "empty", inMemory, sizeBytes: isBounded ? sizeBytes : undefined };
}

function defaultMode({ configMap, secret, projected, downwardAPI }: Volume): number {
  const source = configMap ?? secret ?? projected ?? downwardAPI;
  return source?.defaultMode ?? 0o644;
}

/** Every volume of files is a list of projections. */
export function projectionsOf(volume: Volume): readonly VolumeProjection[] | undefined {
  if (volume.configMap !== undefined) return [{ configMap: volume.configMap }];
  if (volume.secret !== undefined) {
    const { secretName = "", ...rest } = volume.secret;
    return [{ secret: { name: secretName, ...rest } }];
  }
  if (volume.downwardAPI !== undefined) return [{ downwardAPI: volume.downwardAPI }];
  return volume.projected?.sources;
}

type Files = readonly (readonly [string, Omit<VolumeFile, "mode"> & { readonly mode?: number }])[];

const PROJECTIONS = new Set(["configMap", "secret", "serviceAccountToken", "downwardAPI"]);

function projectedFiles(source: VolumeProjection, input: VolumeInput): Files {
  const { configMap, secret, serviceAccountToken, downwardAPI } = source;
  const others = Object.keys(source).filter((key) => !PROJECTIONS.has(key));
  if (others.length > 0)
    throw new ConfigError(`nodes of the lab have no projected volumes of the kind ${others.join(", ")}`);
  if (configMap !== undefined) {
    const { name = "" } = configMap;
    const found = input.sources.configMap(name);
    const data = found && { ...mapValues(found.data, "utf8"), ...mapValues(found.binaryData, "base64") };
    return chosenFiles(["configmap", name], data, configMap);
  }
  if (secret !== undefined) {
    const { name = "" } = secret;
    const found = input.sources.secret(name);
    return chosenFiles(["secret", name], found && mapValues(found.data, "base64"), secret);
  }
  if (serviceAccountToken !== undefined) {
    const token = input.token(tokenWish(serviceAccountToken));
    if (token === undefined) throw new ConfigError("the token of the service account was not issued yet");
    return [[serviceAccountToken.path, { content: Buffer.from(token), ...tokenOwner(input.pod) }]];
  }
  return (downwardAPI?.items ?? []).map((item) => {
    const content = Buffer.from(downwardValue(item, input));
    return [item.path, { content, ...(item.mode === undefined ? {} : { mode: item.mode }) }] as const;
  });
}

/** A token is its pod's alone, as soon as it is known who that is. Source: pkg/volume/projected. */
function tokenOwner(pod: Pod): { readonly mode?: number; readonly uid?: number } {
  const uid = fsUserOf(pod);
  if (uid === undefined && fsGroupOf(pod) === undefined) return {};
  return uid === undefined ? { mode: 0o600 } : { mode: 0o600, uid };
}

function downwardValue({ fieldRef, resourceFieldRef }: DownwardFile, input: VolumeInput): string {
  if (resourceFieldRef === undefined) {
    const fieldPath = fieldRef?.fieldPath ?? "";
    const value = readField(fieldPath, input.pod, input.place);
    if (value === undefined) throw new ConfigError(`a pod has no field ${JSON.stringify(fieldPath)}`);
    return value;
  }
  const { containerName = "", resource } = resourceFieldRef;
  const { containers = [], initContainers = [] } = input.pod.spec ?? {};
  const container = [...containers, ...initContainers].find((it) => it.name === containerName);
  if (container === undefined) throw new ConfigError(`container ${containerName} not found`);
  const value = readResource(resourceFieldRef, container, input.capacity);
  if (value === undefined) throw new ConfigError(`a container has no ${JSON.stringify(resource)}`);
  return value;
}

/** Kubernetes refuses less than ten minutes; an hour is what it defaults to. */
export function tokenWish(source: NonNullable<VolumeProjection["serviceAccountToken"]>): TokenWish {
  return { audience: source.audience ?? "", expirationSeconds: source.expirationSeconds ?? 3600 };
}

function mapValues(data: Readonly<Record<string, string>> | undefined, encoding: "utf8" | "base64") {
  return Object.fromEntries(
    Object.entries(data ?? {}).map(([key, text]) => [key, Buffer.from(text, encoding)]),
  );
}

function chosenFiles(
  [kind, name]: readonly [kind: "configmap" | "secret", name: string],
  data: Readonly<Record<string, Buffer>> | undefined,
  wish: { readonly items?: readonly KeyToPath[]; readonly optional?: boolean },
): Files {
  if (data === undefined) {
    if (wish.optional === true) return [];
    throw new ConfigError(`${kind} "${name}" not found`);
  }
  if (wish.items === undefined)
    return Object.entries(data).map(([path, content]) => [path, { content }] as const);
  return wish.items.flatMap(({ key, path, mode }) => {
    const content = Object.hasOwn(data, key) ? data[key] : undefined;
    if (content !== undefined) return [[path, { content, ...defined({ mode }) }] as const];
    if (wish.optional === true) return [];
    throw new ConfigError(`references non-existent ${kind === "secret" ? "secret" : "config"} key: ${key}`);
  });
}

function checkRelative(volume: string, path: string): void {
  const isSafe =
    path !== "" && !path.startsWith("/") && !path.startsWith("..") && !path.split("/").includes("..");
  if (!isSafe || path.includes("\0"))
    throw new ConfigError(`${JSON.stringify(path)} is not a path inside the volume ${volume}`);
}
