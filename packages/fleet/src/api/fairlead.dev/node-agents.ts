/** Names of what `fairlead node` is installed with in a cluster. */

export const NODE_AGENTS = "fairlead-node";

/** Its ServiceAccount, of the chart and of `fairlead join`. */
export const NODE_AGENTS_ACCOUNT = `${NODE_AGENTS}-sa`;

/** Selects DaemonSets and pods: those of members, of Helm and of users. */
export const NODE_AGENTS_SELECTOR = `app.kubernetes.io/name=${NODE_AGENTS}`;

/** On an agent of a MemberCluster: which version of `fairlead node` runs there. */
export const NODE_AGENTS_CONDITION = "fairlead.dev/NodeAgentsInstalled";

/** The same: whether policies that select pods of other clusters are enforced there. */
export const CROSS_CLUSTER_POLICY = "fairlead.dev/CrossClusterPolicy";

/** The same: whether policies between pods of one node are enforced there. */
export const SAME_NODE_POLICY = "fairlead.dev/SameNodePolicy";

/** On a Node: whether the agent enforces network policies there. */
export const NODE_POLICY_CONDITION = "fairlead.dev/NetworkPolicy";

export const NODE_POLICY_REASONS = {
  enforced: "Enforced",
  known: "EnforcedForKnownPods",
  plugin: "NetworkPluginEnforces",
  unfiltered: "BridgeTrafficNotFiltered",
  failed: "NotEnforced",
} as const;

/**
 * The same: whether the node had policies from its boot on, once the agent has written them. On an agent of a MemberCluster: whether pods there
 * are held back until then.
 */
export const POLICY_AT_BOOT = "fairlead.dev/PolicyAtBoot";

export const POLICY_AT_BOOT_REASONS = {
  restored: "Restored",
  open: "NotRestored",
  plugin: NODE_POLICY_REASONS.plugin,
} as const;

/** The taint of a node whose agent has not written its policies since the boot of the node. */
export const STARTUP_TAINT = "fairlead.dev/agent-not-ready";

/** On a Node: that the agent runs there; its message is the version and the versions of Kubernetes that it supports. */
export const NODE_AGENT_CONDITION = "fairlead.dev/NodeAgent";

/** Versions as profiles name them: those of releases, which are also tags of images. */
const VERSION =
  /^(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})(?:-[0-9A-Za-z][0-9A-Za-z.-]{0,31})?$/;

/** The same for the API server. */
export const VERSION_PATTERN = VERSION.source;

export function isVersion(text: string): boolean {
  return VERSION.test(text);
}
