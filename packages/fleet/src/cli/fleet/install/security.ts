/** The requirements of the Pod Security Standard "restricted" for a pod and for each container. */

export const POD_SECURITY: Record<string, unknown> = {
  runAsNonRoot: true,
  runAsUser: 65_532,
  runAsGroup: 65_532,
  fsGroup: 65_532,
  seccompProfile: { type: "RuntimeDefault" },
};

export const CONTAINER_SECURITY: Record<string, unknown> = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  runAsNonRoot: true,
  capabilities: { drop: ["ALL"] },
  seccompProfile: { type: "RuntimeDefault" },
};
