import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { PolicyId, Rule, Tier, Way } from "./model.ts";
import type { SetKey } from "./peers.ts";

/** What a node enforces: the outcome of the Resolver, and its changes. */

/**
 * The rules for one direction of all pods that the same policies select. They decide in the order of `tiers`, and there in the order of
 * `rules` (the tier `network-policy` has its denies first): the first that matches. `pass` leaves it to the next tier, and so does what no
 * rule matches, unless the tier denies by default. What passes all tiers is allowed.
 */
export interface Group {
  /** Of the names of the policies: a policy that changes leaves the key as it is. Letters and digits only. */
  readonly key: string;
  readonly way: Way;
  readonly tiers: readonly GroupTier[];
  /** The policies of the namespace have more rules on this node than it may have, and not all pods get theirs. */
  readonly isClosed?: true;
}

export interface GroupTier {
  readonly tier: Tier;
  readonly isDefaultDeny: boolean;
  /** The policies that deny by default. */
  readonly deniedBy?: readonly PolicyId[];
  readonly rules: readonly GroupRule[];
}

export interface GroupRule extends Rule {
  readonly policy: PolicyId;
}

/** Absent: no policy of that direction selects the pod, so everything is allowed there. */
export interface GroupKeys {
  readonly ingress?: string;
  readonly egress?: string;
}

/** The groups of a local address. `groups: undefined`: the address is not that of a local pod any more. */
export interface AddressGroups {
  readonly address: IpAddress;
  readonly groups: GroupKeys | undefined;
}

export interface NamedPortElement {
  readonly address: IpAddress;
  readonly port: number;
}

/** Sets of named ports (keys `port:TCP:http`, see `namedPortSet`) have NamedPortElements, `cidr:` sets prefixes, all others addresses. */
export type SetElement = IpAddress | Prefix | NamedPortElement;

export interface SetChange {
  readonly key: SetKey;
  /** `gone`: nothing refers to the set any more. */
  readonly state: "new" | "changed" | "gone";
  readonly added: readonly SetElement[];
  readonly removed: readonly SetElement[];
}

/**
 * To be applied at once. Sets that are new are referred to by groups that are new or changed. The Resolver
 * leaves `fqdn:` sets empty: the DNS proxy knows their elements.
 */
export interface Changes {
  readonly sets: readonly SetChange[];
  /** New ones and those with other rules. */
  readonly groups: readonly Group[];
  readonly groupsGone: readonly string[];
  readonly addresses: readonly AddressGroups[];
  /** The groups of the node's own network, from policies whose subject is nodes; undefined if unchanged. */
  readonly host: GroupKeys | undefined;
}
