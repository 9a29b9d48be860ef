import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Session } from "../session.ts";

/** The clusters that are drained, as the hub says. */
export function drainsOf({ cluster, mailbox }: Session): ReadonlyMap<string, DrainMode> {
  const internalMember = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
  return new Map((internalMember?.spec.drained ?? []).map((it) => [it.cluster, it.mode]));
}
