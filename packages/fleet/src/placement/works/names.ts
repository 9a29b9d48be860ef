import { createHash } from "node:crypto";
import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { EnvelopeIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** What the names of the Works of a placement begin with. */
function baseOf({ namespace, labels }: ObjectMeta): string {
  const placement = labels?.[PARENT_PLACEMENT_LABEL] ?? "";
  return namespace === undefined ? placement : `${namespace}.${placement}`;
}

/** @param part - Of the resource snapshot: undefined for its first part. */
export function workName(binding: ObjectMeta, part: string | undefined): string {
  return `${baseOf(binding)}-${part ?? "work"}`;
}

export function envelopeWorkName(binding: ObjectMeta, { type, namespace, name }: EnvelopeIdentifier): string {
  const id = createHash("sha256")
    .update(`${type}/${namespace ?? ""}/${name}`)
    .digest("hex")
    .slice(0, 16);
  return `${baseOf(binding)}-envelope-${id}`;
}
