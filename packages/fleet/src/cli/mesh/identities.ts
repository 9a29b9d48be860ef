import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentityDemand,
  type IdentitySlice,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** What members know of the pods of each other, as the hub has it. */

export interface IdentitySnapshot {
  /** Of the view. */
  readonly slices: readonly IdentitySlice[];
  readonly demands: readonly IdentityDemand[];
}

/** What the others know of one member. */
export interface KnownOfMember {
  readonly pods: number;
  /** When the newest of it was published. RFC 3339. */
  readonly newest?: string;
  /** What is refused, or old. */
  readonly problems: readonly string[];
}

/** Of an older hub: nothing. */
export async function readIdentities(
  hub: KubeClient,
  view: string,
  signal: AbortSignal,
): Promise<IdentitySnapshot> {
  const list = async <T extends KubeObject>(of: Resource<T>, namespace?: string): Promise<readonly T[]> => {
    try {
      return (await hub.list(of, { signal, ...(namespace === undefined ? {} : { namespace }) })).items;
    } catch (error) {
      if (!hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN")) throw error;
      return [];
    }
  };
  const [slices, demands] = await Promise.all([list(IDENTITY_SLICES, view), list(IDENTITY_DEMANDS)]);
  return { slices, demands };
}

export function summarizeIdentities({ slices, demands }: IdentitySnapshot, member: string): KnownOfMember {
  const own = slices.filter((it) => it.spec.cluster === member);
  const newest = own
    .map((it) => it.spec.publishedAt)
    .toSorted()
    .at(-1);
  const conditions = demands.find((it) => it.metadata.name === member)?.status?.conditions ?? [];
  return {
    pods: own.reduce((sum, { spec }) => sum + (spec.pods?.length ?? 0), 0),
    ...(newest === undefined ? {} : { newest }),
    problems: conditions.filter((it) => it.status === "False").map((it) => `${member}: ${it.message}`),
  };
}
