/** Labels, annotations and finalizers of placements, as KubeFleet spells them. */

const PREFIX = "kubernetes-fleet.io";

/** The placement that an object belongs to: a ClusterResourcePlacement or, with the namespace of the object, a ResourcePlacement. */
export const PARENT_PLACEMENT_LABEL = `${PREFIX}/parent-CRP`;
export const PARENT_PLACEMENT_NAMESPACE_LABEL = `${PREFIX}/parent-placement-namespace`;
export const LATEST_SNAPSHOT_LABEL = `${PREFIX}/is-latest-snapshot`;
export const POLICY_INDEX_LABEL = `${PREFIX}/policy-index`;
export const RESOURCE_INDEX_LABEL = `${PREFIX}/resource-index`;
/** Generation of the placement that the snapshot was made for. */
export const PLACEMENT_GENERATION_ANNOTATION = `${PREFIX}/CRP-generation`;
export const NUMBER_OF_CLUSTERS_ANNOTATION = `${PREFIX}/number-of-clusters`;
export const RESOURCE_HASH_ANNOTATION = `${PREFIX}/resource-hash`;
export const NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION = `${PREFIX}/number-of-resource-snapshots`;
export const NUMBER_OF_ENVELOPES_ANNOTATION = `${PREFIX}/number-of-enveloped-object`;
export const SUBINDEX_ANNOTATION = `${PREFIX}/subindex-of-resource-snapshot`;
/** RFC 3339: since when a newer set of resources waits to become a snapshot. */
export const NEXT_SNAPSHOT_DETECTED_ANNOTATION = `${PREFIX}/next-resource-snapshot-candidate-detection-time`;

export const PARENT_OVERRIDE_LABEL = `${PREFIX}/parent-resource-override`;
export const OVERRIDE_INDEX_LABEL = `${PREFIX}/override-index`;

export const PREVIOUS_BINDING_STATE_ANNOTATION = `${PREFIX}/previous-binding-state`;

export const PARENT_BINDING_LABEL = `${PREFIX}/parent-resource-binding`;
export const PARENT_SNAPSHOT_INDEX_LABEL = `${PREFIX}/parent-resource-snapshot-index`;
/** Of a Work made from an envelope: the kind of the envelope. */
export const ENVELOPE_WORK_LABEL = `${PREFIX}/envelope-work`;
export const ENVELOPE_NAME_LABEL = `${PREFIX}/envelope-name`;
export const ENVELOPE_NAMESPACE_LABEL = `${PREFIX}/envelope-namespace`;
export const PARENT_SNAPSHOT_NAME_ANNOTATION = `${PREFIX}/parent-resource-snapshot-name`;
export const PARENT_OVERRIDE_HASH_ANNOTATION = `${PREFIX}/parent-resource-override-snapshot-hash`;
export const PARENT_CLUSTER_OVERRIDE_HASH_ANNOTATION = `${PREFIX}/parent-cluster-resource-override-snapshot-hash`;
/** The older form of an envelope: a ConfigMap with this annotation. */
export const ENVELOPE_CONFIG_MAP_ANNOTATION = `${PREFIX}/envelope-configmap`;

/** Addition. On a Work that is deleted: "Abandon" leaves what it applied. */
export const DELETION_PROPAGATION_ANNOTATION = "fairlead.dev/propagation-policy";

/** Addition. On an AppliedWork: uid and generation of the Work that was applied last. */
export const APPLIED_GENERATION_ANNOTATION = "fairlead.dev/applied-generation";

/** On objects of members: what was applied, for the three-way merge and for finding drift. */
export const LAST_APPLIED_ANNOTATION = `${PREFIX}/last-applied-configuration`;
export const SPEC_HASH_ANNOTATION = `${PREFIX}/spec-hash`;

/** In lower case, unlike the others. */
export const TARGET_UPDATE_RUN_LABEL = `${PREFIX}/targetupdaterun`;
export const TARGET_STAGE_LABEL = `${PREFIX}/targetUpdatingStage`;
export const TASK_TYPE_LABEL = `${PREFIX}/taskType`;
export const LATEST_APPROVAL_LABEL = `${PREFIX}/isLatestUpdateRunApproval`;
/** The last stage of every run: clusters that the placement has left. */
export const DELETE_STAGE = `${PREFIX}/deleteStage`;

export const CLUSTER_PLACEMENT_FINALIZER = `${PREFIX}/crp-cleanup`;
export const PLACEMENT_FINALIZER = `${PREFIX}/rp-cleanup`;
export const SCHEDULER_FINALIZER = `${PREFIX}/scheduler-cleanup`;
export const BINDING_FINALIZER = `${PREFIX}/scheduler-crb-cleanup`;
export const WORK_FINALIZER = `${PREFIX}/work-cleanup`;
export const OVERRIDE_FINALIZER = `${PREFIX}/override-cleanup`;
export const UPDATE_RUN_FINALIZER = `${PREFIX}/stagedupdaterun-finalizer`;
export const PLACEMENT_STATUS_FINALIZER = `${PREFIX}/cluster-resource-placement-status-cleanup`;

/** Field managers. */
export const PLACEMENT_MANAGER = "cluster-placement-controller";
export const OVERRIDE_MANAGER = "override-controller";
export const UPDATE_RUN_MANAGER = "cluster-staged-update-run-controller";
export const WORK_MANAGER = "work-api-agent";
