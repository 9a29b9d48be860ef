import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { PlacedOnLeave } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { APPLIED_WORKS, type AppliedWork } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { countKinds } from "#placement/work/placed.ts";
import { listOrNone } from "./leave-member.ts";

/** What is placed on a member, and what of it is left when the member has left the fleet. */

export type PlacedObject = NonNullable<NonNullable<AppliedWork["status"]>["appliedResources"]>[number];

/** Requests at a time. */
const AT_A_TIME = 16;

export async function placedOn(
  member: KubeClient | undefined,
  name: string,
  signal: AbortSignal,
): Promise<readonly PlacedObject[]> {
  if (member === undefined) return [];
  const all = await listOrNone(member, APPLIED_WORKS, { signal });
  const placed = all
    .filter((it) => it.spec.workNamespace === mailboxOf(name))
    .flatMap((it) => it.status?.appliedResources ?? []);
  return [...new Map(placed.map((it) => [it.uid ?? JSON.stringify(it), it])).values()];
}

/** Of the objects, those that are still there. */
export async function stillThere(
  member: KubeClient,
  placed: readonly PlacedObject[],
  signal: AbortSignal,
): Promise<readonly PlacedObject[]> {
  const left: PlacedObject[] = [];
  for (let at = 0; at < placed.length; at += AT_A_TIME) {
    const some = placed.slice(at, at + AT_A_TIME);
    const found = await Promise.all(some.map((it) => isThere(member, it, signal)));
    left.push(...some.filter((_, index) => found[index] === true));
  }
  return left;
}

async function isThere(member: KubeClient, object: PlacedObject, signal: AbortSignal): Promise<boolean> {
  const { group = "", version = "", kind = "", resource: plural = "", namespace = "", name = "" } = object;
  const of: Resource = { group, version, kind, plural, namespaced: namespace !== "" };
  const key = objectKey(namespace === "" ? undefined : namespace, name);
  try {
    const found = await member.find<KubeObject>(of, key, { signal });
    return found !== undefined && (object.uid === undefined || found.metadata.uid === object.uid);
  } catch (error) {
    // Its kind is gone.
    if (hasCode(error, "API_NOT_FOUND")) return false;
    throw error;
  }
}

export function describeLeft(
  placed: readonly PlacedObject[],
  left: readonly PlacedObject[],
  asked: PlacedOnLeave | undefined,
): string {
  const kinds = (all: readonly PlacedObject[]): string => countKinds(all.map((it) => it.kind ?? ""));
  return `what was placed (${asked ?? "Keep"}): ${kinds(placed)}; left in the cluster: ${kinds(left)}`;
}
