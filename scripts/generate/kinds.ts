/**
 * The kinds that the embedded API server serves or takes as a request's body, by the prefix of their definitions' names.
 * What they refer to comes along.
 */
const SERVED: Readonly<Record<string, readonly string[]>> = {
  "io.k8s.api.core.v1": [
    "Binding",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
  ],
  "io.k8s.api.admissionregistration.v1": [
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
  ],
  "io.k8s.api.apps.v1": ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
  "io.k8s.api.authentication.v1": ["SelfSubjectReview", "TokenRequest", "TokenReview"],
  "io.k8s.api.authorization.v1": [
    "LocalSubjectAccessReview",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
  ],
  "io.k8s.api.autoscaling.v1": ["Scale"],
  "io.k8s.api.autoscaling.v2": ["HorizontalPodAutoscaler"],
  "io.k8s.api.batch.v1": ["CronJob", "Job"],
  "io.k8s.api.certificates.v1": ["CertificateSigningRequest"],
  "io.k8s.api.coordination.v1": ["Lease"],
  "io.k8s.api.discovery.v1": ["EndpointSlice"],
  "io.k8s.api.events.v1": ["Event"],
  "io.k8s.api.flowcontrol.v1": ["FlowSchema", "PriorityLevelConfiguration"],
  "io.k8s.api.networking.v1": ["IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"],
  "io.k8s.api.node.v1": ["RuntimeClass"],
  "io.k8s.api.policy.v1": ["Eviction", "PodDisruptionBudget"],
  "io.k8s.api.rbac.v1": ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
  "io.k8s.api.scheduling.v1": ["PriorityClass"],
  "io.k8s.api.storage.v1": [
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "StorageClass",
    "VolumeAttachment",
    "VolumeAttributesClass",
  ],
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": ["CustomResourceDefinition"],
  "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": ["APIService"],
  "io.k8s.apimachinery.pkg.apis.meta.v1": ["DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status"],
};

/** The full names of the definitions above, sorted. */
export function servedDefinitions(): string[] {
  return Object.entries(SERVED)
    .flatMap(([prefix, kinds]) => kinds.map((kind) => `${prefix}.${kind}`))
    .toSorted();
}
