/** Names of what `fairlead join` installs in a member. */

/** Marks what `fairlead join` installed, for `fairlead leave`; objects of a chart have "Helm". */
export const INSTALLED_BY_LABEL = "app.kubernetes.io/managed-by";
export const INSTALLED_BY = "fairlead";

export const MEMBER_AGENT = "fairlead-member";
/** The Deployment of `fairlead dns`. */
export const DNS_SERVERS = `${MEMBER_AGENT}-dns`;
