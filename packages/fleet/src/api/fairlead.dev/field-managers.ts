/** Field managers of server-side apply (KEP-555). Each object is written by one controller only. */

/** Owns what the hub's controllers apply. */
export const HUB_MANAGER = "fairlead-hub";

/** Owns what the member's controllers apply, in their own cluster and on the hub. */
export const MEMBER_MANAGER = "fairlead-member";

/** Owns what a relay writes on the hub. */
export const RELAY_MANAGER = "fairlead-relay";

/** Owns what a node applies: addresses of its pods, keys and candidates of its gateway. */
export const NODE_MANAGER = "fairlead-node";
