/** Names that `fairlead hub move` and the agents of members agree on. */

/** In `fleet-system` of both hubs: how far a move is (`cli/hub-move/journal.ts`). */
export const MOVE_JOURNAL = "fairlead-hub-move";
/**
 * What that says of its hub. One of the two always has the fleet:
 *
 * - `Active`: has the fleet; its program runs. As without a journal.
 * - `Sending`: has the fleet, and is copied to the other hub; its program is paused.
 * - `Receiving`: is a copy that may be incomplete; its program is paused.
 * - `Retired`: the other hub has the fleet; its program is paused, and it tells its members where to go.
 */
export const HUB_STATES = ["Active", "Sending", "Receiving", "Retired"] as const;
export type HubState = (typeof HUB_STATES)[number];

/**
 * Annotation of an InternalMemberCluster: the hub has moved, and the Secret in the same namespace says where. Another value asks the
 * member to try at once.
 */
export const NEXT_HUB_ANNOTATION = "fairlead.dev/next-hub";
/** That Secret, with the keys of the Secret `fleet-system/fairlead-hub` of a member; and the Role and RoleBinding to read it. */
export const NEXT_HUB = "fairlead-next-hub";
/** Reason of the event in the mailbox of a member that cannot switch to the next hub. */
export const NEXT_HUB_FAILED = "NextHubFailed";

/** Life of a token with which a member that is away when its hub moves can follow. Unit: seconds. */
export const FOLLOW_SECONDS = 86_400;
