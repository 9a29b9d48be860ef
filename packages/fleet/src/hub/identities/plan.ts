import type { IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import {
  ALLOWED_EXPORTERS_ANNOTATION,
  SERVICE_NAMESPACE_LABEL,
  SOURCE_CLUSTER_LABEL,
} from "#api/fairlead.dev/names.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import {
  type AddressCheck,
  findIdentityProblem,
  labelsOfPod,
  withOwnAddresses,
} from "#domain/identity-slice.ts";
import type { WantsReader } from "#domain/identity-wants.ts";

/** Which slices of members the hub shows to others. Pure. */

export interface IdentityView {
  readonly slice: IdentitySlice;
  /** Whether the mailbox is that of a member. */
  readonly isMember: boolean;
  /** Whether the member has been silent for too long. */
  readonly isForgotten: boolean;
  /** The members whose exports of the namespace count; undefined: all. */
  readonly exporters: readonly string[] | undefined;
  /** What other members need to know of this one. */
  readonly wanted: WantsReader;
  readonly check: AddressCheck;
}

export interface IdentityPlan {
  /** Undefined: nothing is shown. */
  readonly spec: IdentitySlice["spec"] | undefined;
  /** Why something of it is not shown, which its owner should know. */
  readonly problem: string | undefined;
}

const NOTHING: IdentityPlan = { spec: undefined, problem: undefined };

export function planIdentity({
  slice,
  isMember,
  isForgotten,
  exporters,
  wanted,
  check,
}: IdentityView): IdentityPlan {
  const cluster = clusterOfMailbox(slice.metadata.namespace);
  if (cluster === undefined || !isMember || slice.metadata.deletionTimestamp !== undefined) return NOTHING;
  if (isForgotten) return NOTHING;
  const { spec } = slice;
  const wrong = findIdentityProblem(spec, cluster);
  if (wrong !== undefined) return { spec: undefined, problem: wrong };
  if (!isWanted(spec, wanted)) return NOTHING;
  if (spec.namespace !== undefined && exporters?.includes(cluster) === false)
    return {
      spec: undefined,
      problem: `the annotation ${ALLOWED_EXPORTERS_ANNOTATION} of namespace ${spec.namespace} on the hub does not name ${cluster}`,
    };
  const { spec: own, problem } = withOwnAddresses(spec, check);
  return { spec: isEmpty(own) ? undefined : own, problem };
}

function isEmpty({ type, pods = [], nodes = [], addresses = [] }: IdentitySlice["spec"]): boolean {
  return type !== "Namespace" && pods.length === 0 && nodes.length === 0 && addresses.length === 0;
}

function isWanted(spec: IdentitySlice["spec"], wanted: WantsReader): boolean {
  const { type, namespace = "", labels = {}, pods = [] } = spec;
  if (type === "Nodes") return wanted.nodes;
  if (type === "Addresses") return wanted.addresses();
  if (type === "Namespace") return wanted.namespace(namespace, labels);
  return pods.some((it) => wanted.pods(namespace, undefined, labelsOfPod(spec, it)));
}

/** By which members choose what they read of the view. Nodes and addresses are of no namespace. */
export function labelsOf({ cluster, namespace = "" }: IdentitySlice["spec"]): Record<string, string> {
  return { [SOURCE_CLUSTER_LABEL]: cluster, [SERVICE_NAMESPACE_LABEL]: namespace };
}
