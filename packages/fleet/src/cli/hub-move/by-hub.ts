import { byText } from "@fairlead/base/text.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { MemberCluster, InternalMemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";

/** Which hub each member is with. Pure. */

/** What a hub has of its members. */
export interface Signs {
  readonly leases: Iterable<Lease>;
  readonly internalMembers: Iterable<InternalMemberCluster>;
}

export interface MembersByHub {
  /** With the hub that has the fleet. */
  readonly moved: readonly string[];
  /** With the hub that had it. */
  readonly staying: readonly string[];
}

/** By mailbox, when each member last renewed its Lease or reported, by its own clock. */
export type LastSeen = ReadonlyMap<string, number>;

export function lastSeen({ leases, internalMembers }: Signs): LastSeen {
  const seen = new Map<string, number>();
  const note = (mailbox: string | undefined, time: string | undefined): void => {
    const ms = Date.parse(time ?? "");
    if (mailbox !== undefined && !Number.isNaN(ms)) seen.set(mailbox, Math.max(ms, seen.get(mailbox) ?? 0));
  };
  for (const { metadata, spec } of leases) note(metadata.namespace, spec?.renewTime);
  for (const { metadata, status } of internalMembers)
    for (const it of status?.agentStatus ?? []) note(metadata.namespace, it.lastReceivedHeartbeat);
  return seen;
}

/** A member is with the hub that it reported to last. */
export function membersByHub(
  members: Iterable<MemberCluster>,
  { from, to }: { readonly from: LastSeen; readonly to: LastSeen },
): MembersByHub {
  const names = Array.from(members, (it) => it.metadata.name).toSorted(byText);
  const hasMoved = (name: string): boolean => {
    const [before, after] = [from.get(mailboxOf(name)), to.get(mailboxOf(name))];
    return before === undefined || (after !== undefined && after > before);
  };
  return { moved: names.filter(hasMoved), staying: names.filter((it) => !hasMoved(it)) };
}

/** How long members of a hub have been silent, by the clock of the caller: theirs may be wrong. */
export class Silence {
  readonly #last = new Map<string, { readonly time: number | undefined; readonly sinceMs: number }>();

  /** Unit: milliseconds; from the first call on. */
  of(name: string, seen: LastSeen, nowMs: number): number {
    const time = seen.get(mailboxOf(name));
    const last = this.#last.get(name);
    if (last !== undefined && last.time === time) return nowMs - last.sinceMs;
    this.#last.set(name, { time, sinceMs: nowMs });
    return 0;
  }
}
