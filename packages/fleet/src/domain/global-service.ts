import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { LocalityAffinity } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { shown } from "./formats.ts";

/**
 * Global services: Services of one namespace and name, in several clusters, that share their endpoints. Annotations of the Service say
 * so, with the keys and values of Cilium Cluster Mesh. Pure.
 */

/** Keys of one setting: the first one that is present decides, even if its value is bad. */
type Keys = readonly [key: string, ...aliases: string[]];

export const GLOBAL_SERVICE_KEYS = {
  global: ["service.cilium.io/global", "io.cilium/global-service"],
  shared: ["service.cilium.io/shared", "io.cilium/shared-service"],
  affinity: ["service.cilium.io/affinity", "io.cilium/service-affinity"],
  sync: ["service.cilium.io/global-sync-endpoint-slices"],
} as const satisfies Record<string, Keys>;

/** In the place of an API group, where exports name what exports them. */
export const GLOBAL_SERVICE_GROUP = "service.cilium.io";

/** Annotation of an EndpointSlice: the weight of each of its endpoints. 0: they get no new connections. */
export const SLICE_WEIGHT_ANNOTATION = "service.cilium.io/weight";
/** More than any known use. */
export const MAX_SLICE_WEIGHT = 65_535;

/** Settings of Cilium's own service proxy, with the values that say what every proxy does. */
const PROXY_SETTINGS: Readonly<Record<string, readonly string[]>> = {
  "service.cilium.io/lb-algorithm": ["random"],
  "service.cilium.io/forwarding-mode": ["snat"],
  "service.cilium.io/node": [],
  "service.cilium.io/node-selector": [],
  "service.cilium.io/type": [],
  "service.cilium.io/src-ranges-policy": ["allow"],
  "service.cilium.io/proxy-delegation": ["none"],
};

type Annotations = Readonly<Record<string, string>> | undefined;

export interface GlobalSettings {
  /** Whether the Service uses the endpoints of global Services of the same name in other clusters. */
  readonly isGlobal: boolean;
  /** Whether other clusters use its endpoints. */
  readonly isShared: boolean;
  readonly affinity: LocalityAffinity;
  /** Whether every service proxy sees the endpoints of other clusters, or the node agent alone. */
  readonly syncsSlices: boolean;
  /** What is ignored, and why. */
  readonly problems: readonly string[];
}

const LOCAL: GlobalSettings = {
  isGlobal: false,
  isShared: false,
  affinity: "none",
  syncsSlices: true,
  problems: [],
};

/** Reads the annotations of a Service. */
export function readGlobalSettings({ metadata }: Pick<Service, "metadata">): GlobalSettings {
  const { annotations } = metadata;
  if (annotations === undefined || !isTrue(lookUp(annotations, GLOBAL_SERVICE_KEYS.global)?.value))
    return LOCAL;
  const shared = lookUp(annotations, GLOBAL_SERVICE_KEYS.shared);
  const sync = lookUp(annotations, GLOBAL_SERVICE_KEYS.sync);
  const affinity = readAffinity(annotations);
  return {
    isGlobal: true,
    isShared: shared === undefined || isTrue(shared.value),
    affinity: affinity.value,
    syncsSlices: sync === undefined || isTrue(sync.value),
    problems: [
      ...[shared, sync].flatMap((it) =>
        it === undefined || isBoolean(it.value)
          ? []
          : [`${it.key}: must be "true" or "false", got ${shown(it.value)}; using "false"`],
      ),
      ...affinity.problems,
      ...unsupported(annotations),
    ],
  };
}

/** Returns true if the Service is global, without reading the rest. */
export function isGlobalService({ metadata: { annotations } }: Pick<Service, "metadata">): boolean {
  return annotations !== undefined && isTrue(lookUp(annotations, GLOBAL_SERVICE_KEYS.global)?.value);
}

/** Returns the weight of each endpoint of a slice; undefined where the slice has none, or one that is not a number. */
export function sliceWeight(annotations: Annotations): number | undefined {
  const text = annotations?.[SLICE_WEIGHT_ANNOTATION];
  if (text === undefined || !/^\d{1,9}$/.test(text)) return undefined;
  const weight = Number(text);
  return weight <= MAX_SLICE_WEIGHT ? weight : undefined;
}

interface Found {
  readonly key: string;
  readonly value: string;
}

function lookUp(annotations: Readonly<Record<string, string>>, keys: Keys): Found | undefined {
  for (const key of keys) {
    const value = annotations[key];
    if (value !== undefined) return { key, value };
  }
  return undefined;
}

function isTrue(value: string | undefined): boolean {
  return value?.toLowerCase() === "true";
}

function isBoolean(value: string): boolean {
  return isTrue(value) || value.toLowerCase() === "false";
}

const AFFINITIES: readonly LocalityAffinity[] = ["none", "local", "remote"];

function readAffinity(annotations: Readonly<Record<string, string>>): {
  readonly value: LocalityAffinity;
  readonly problems: readonly string[];
} {
  const found = lookUp(annotations, GLOBAL_SERVICE_KEYS.affinity);
  const value = AFFINITIES.find((it) => it === found?.value.toLowerCase());
  if (found === undefined || value !== undefined) return { value: value ?? "none", problems: [] };
  const problem = `${found.key}: must be one of ${AFFINITIES.join(", ")}, got ${shown(found.value)}; using "none"`;
  return { value: "none", problems: [problem] };
}

function unsupported(annotations: Readonly<Record<string, string>>): string[] {
  return Object.entries(PROXY_SETTINGS).flatMap(([key, harmless]) => {
    const value = annotations[key];
    return value === undefined || harmless.includes(value.toLowerCase())
      ? []
      : [`${key}: ${shown(value)} is a setting of Cilium's own service proxy, and is ignored`];
  });
}

/** The state of the endpoints of one side: of this cluster, or of all others. */
export interface SideHealth {
  /** Whether an endpoint is ready and answers. */
  readonly isActive: boolean;
  /** Whether an endpoint answers that is ready, or serves while it terminates. */
  readonly isHealthy: boolean;
}

export interface Sides {
  readonly local: boolean;
  readonly remote: boolean;
}

/** Which endpoints a global Service uses: its own, and those of other clusters. */
export function chooseSides(affinity: LocalityAffinity, local: SideHealth, remote: SideHealth): Sides {
  if (affinity === "local") return { local: true, remote: !local.isActive && remote.isHealthy };
  if (affinity === "remote") return { local: !remote.isHealthy && local.isHealthy, remote: true };
  return { local: true, remote: true };
}
