/** Properties of a MemberCluster besides its ranges: what its agent finds out about the cluster. */

/** Of the API server, such as "v1.34.1". */
export const KUBERNETES_PROPERTY = "fairlead.dev/kubernetes-version";
/** The network plugin, if it enforces network policies itself. */
export const CNI_PROPERTY = "fairlead.dev/cni";
/** Another program that connects clusters. */
export const OTHER_MESH_PROPERTY = "fairlead.dev/other-mesh";

/** Longest text that the hub keeps. Unit: characters. */
export const MAX_FACT = 64;
