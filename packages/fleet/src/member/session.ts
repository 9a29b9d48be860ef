import type { InternalMemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { Change, KubeClient } from "@fairlead/kube/types.ts";
import type { FleetState } from "./fleet-state.ts";
import type { LocalInformers, MailboxInformers } from "./informers.ts";
import type { Ranges } from "./membership/ranges.ts";
import type { MemberPart } from "./roles.ts";
import type { Stopwatch } from "./stopwatch.ts";

/** What every controller of a member is given: both sides, for as long as the cluster is in the fleet. */
export interface Session {
  /** The member's name, which is its cluster id. */
  readonly cluster: string;
  readonly part: MemberPart;
  readonly local: KubeClient;
  readonly hub: KubeClient;
  readonly here: LocalInformers;
  readonly mailbox: MailboxInformers;
  /** Undefined if this part does not report them. */
  readonly ranges: Ranges | undefined;
  /** What the hub says of the fleet, wherever it says it. */
  readonly fleet: FleetState;
  /** Whether the hub gave orders since the program began, and reported no deletion of them since. */
  readonly wasOrdered: () => boolean;
  readonly events: EventRecorder;
  readonly stopwatch: Stopwatch;
  /** Beginnings of the annotations that a MultiClusterService passes on to its load balancer. */
  readonly passOn: readonly string[];
  readonly deps: RuntimeDeps;
}

/**
 * What the hub wants of this member. "none": its orders are not to be seen, so nothing is changed; a hub that lost its
 * data must not empty the fleet.
 */
export type Membership = "join" | "leave" | "none";

export function membershipOf(session: Session): Membership {
  const orders = ordersOf(session);
  if (orders === undefined) return isUnordered(session) ? "join" : "none";
  switch (orders.spec.state) {
    case "Join":
      return "join";
    case "Leave":
      return "leave";
    default:
      return "none";
  }
}

/** What of it deals with the hub alone. */
export type HubSession = Pick<Session, "cluster" | "part" | "hub" | "deps" | "wasOrdered"> & {
  readonly mailbox: Pick<Session["mailbox"], "orders">;
};

/** Returns true for a legacy hub, which its InternalMemberCluster shows: it receives none of Fairlead's extensions. */
export function isLegacyHub(session: HubSession): boolean {
  const orders = ordersOf(session);
  return orders === undefined ? isUnordered(session) : !isOfOurs(orders);
}

function ordersOf({ mailbox, cluster }: HubSession): InternalMemberCluster | undefined {
  return mailbox.orders.store.get(objectKey(mailboxOf(cluster), cluster));
}

/** fleet-networking without KubeFleet gives no orders, and its agents need none: a cluster that has a mailbox is in the fleet. */
function isUnordered({ part, wasOrdered }: HubSession): boolean {
  return part.isFleetOnly === true && !wasOrdered();
}

export function isOfOurs({ spec }: InternalMemberCluster): boolean {
  return spec.leaseDurationSeconds !== undefined;
}

/** Whether the hub's orders changed in what controllers go by. */
export function isMembershipChanged({ before, after }: Change<InternalMemberCluster>): boolean {
  const facts = (it: InternalMemberCluster | undefined): string =>
    it === undefined ? "" : `${it.spec.state} ${isOfOurs(it)}`;
  return facts(before) !== facts(after);
}

/** Whether an object came or went. */
export function isPresenceChanged({ before, after }: Change<KubeObject>): boolean {
  return (before === undefined) !== (after === undefined);
}
