/** The order in which the manifests of a Work are applied: what others need goes first. Manifests of one wave are applied in parallel. */

const WAVES: readonly (readonly string[])[] = [
  ["/Namespace", "scheduling.k8s.io/PriorityClass"],
  [
    "networking.k8s.io/NetworkPolicy",
    "/ResourceQuota",
    "/LimitRange",
    "policy/PodSecurityPolicy",
    "policy/PodDisruptionBudget",
    "/ServiceAccount",
    "/Secret",
    "/ConfigMap",
    "storage.k8s.io/StorageClass",
    "/PersistentVolume",
    "/PersistentVolumeClaim",
    "apiextensions.k8s.io/CustomResourceDefinition",
    "networking.k8s.io/IngressClass",
  ],
  ["rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/Role"],
  ["rbac.authorization.k8s.io/ClusterRoleBinding", "rbac.authorization.k8s.io/RoleBinding"],
  [
    "/Service",
    "/Pod",
    "/ReplicationController",
    "apps/Deployment",
    "apps/ReplicaSet",
    "apps/StatefulSet",
    "apps/DaemonSet",
    "autoscaling/HorizontalPodAutoscaler",
    "batch/Job",
    "batch/CronJob",
    "networking.k8s.io/Ingress",
  ],
  [
    "apiregistration.k8s.io/APIService",
    "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
    "admissionregistration.k8s.io/MutatingWebhookConfiguration",
  ],
];

/** Of kinds that no wave names: custom resources. */
const LAST_WAVE = WAVES.length;
const WAVE_OF: ReadonlyMap<string, number> = new Map(
  WAVES.flatMap((kinds, wave) => kinds.map((kind) => [kind, wave] as const)),
);

export function waveOf({ group, kind }: { readonly group: string; readonly kind: string }): number {
  return WAVE_OF.get(`${group}/${kind}`) ?? LAST_WAVE;
}

/** The items by wave, first wave first, each in the given order. */
export function inWaves<T extends { readonly group: string; readonly kind: string }>(
  items: readonly T[],
): T[][] {
  const waves: T[][] = [];
  for (const item of items) (waves[waveOf(item)] ??= []).push(item);
  return waves.filter((it) => it !== undefined);
}
