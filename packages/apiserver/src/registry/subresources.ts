import type { ResourceDefinition } from "./types.ts";

export interface Subresource {
  readonly name: string;
  readonly verbs: readonly string[];
  /** Default: the resource's own. */
  readonly kind?: { readonly group: string; readonly version: string; readonly kind: string };
}

const STORED_VERBS = ["get", "patch", "update"];
const STREAM_VERBS = ["create", "get"];

function coreKind(kind: string): NonNullable<Subresource["kind"]> {
  return { group: "", version: "v1", kind };
}

/** Those of one resource only. */
const SPECIAL: ReadonlyMap<string, readonly Subresource[]> = new Map<string, readonly Subresource[]>([
  ["certificates.k8s.io/certificatesigningrequests", [{ name: "approval", verbs: STORED_VERBS }]],
  ["/namespaces", [{ name: "finalize", verbs: ["update"] }]],
  [
    "/pods",
    [
      { name: "attach", verbs: STREAM_VERBS, kind: coreKind("PodAttachOptions") },
      { name: "binding", verbs: ["create"], kind: coreKind("Binding") },
      { name: "eviction", verbs: ["create"], kind: { group: "policy", version: "v1", kind: "Eviction" } },
      { name: "exec", verbs: STREAM_VERBS, kind: coreKind("PodExecOptions") },
      { name: "log", verbs: ["get"], kind: coreKind("Pod") },
      { name: "portforward", verbs: STREAM_VERBS, kind: coreKind("PodPortForwardOptions") },
    ],
  ],
]);

/** Those that are read and written as the object itself; the strategy says what of it changes. */
export const PARTS_OF_OBJECT: ReadonlySet<string> = new Set(["approval", "finalize", "status"]);

/** The subresources of a resource, except reviews. */
export function subresourcesOf(
  definition: Pick<ResourceDefinition, "group" | "plural" | "hasStatus" | "isCustom"> & {
    readonly scale?: object;
  },
): readonly Subresource[] {
  const scale = definition.scale === undefined ? [] : [{ name: "scale", verbs: STORED_VERBS }];
  const status = definition.hasStatus ? [{ name: "status", verbs: STORED_VERBS }] : [];
  const { isCustom } = definition;
  return [
    ...(SPECIAL.get(`${definition.group}/${definition.plural}`) ?? []),
    ...(isCustom ? [status, scale] : [scale, status]).flat(),
  ];
}
