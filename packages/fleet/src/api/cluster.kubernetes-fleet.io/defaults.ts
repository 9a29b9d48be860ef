/** Default of `spec.heartbeatPeriodSeconds` of a member (KubeFleet's). Unit: seconds. */
export const HEARTBEAT_SECONDS = 60;

/** How long a member may be silent before it is suspect; KubeFleet calls a member unhealthy after 60 s. Unit: seconds. */
export const MEMBER_LEASE_SECONDS = 60;
