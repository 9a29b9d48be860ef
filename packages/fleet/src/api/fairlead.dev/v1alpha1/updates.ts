import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";

/**
 * Upgrades of clusters, stage by stage. Names of fields, enums and limits are those of Azure Kubernetes Fleet Manager
 * (Microsoft.ContainerService/fleets, API 2026-06-02-preview); references by resource id became names.
 */

export const UPDATE_STATES = [
  "NotStarted",
  "Running",
  "Pending",
  "Stopping",
  "Stopped",
  "Skipped",
  "Failed",
  "Completed",
] as const;
export type UpdateState = (typeof UPDATE_STATES)[number];

export const UPGRADE_TYPES = ["Full", "ControlPlaneOnly", "NodeImageOnly", "Components"] as const;
export type UpgradeType = (typeof UPGRADE_TYPES)[number];

export const NODE_IMAGE_SELECTIONS = ["Latest", "Consistent", "Custom"] as const;
export const GATE_TYPES = ["Approval", "ScheduledStart"] as const;
export type GateType = (typeof GATE_TYPES)[number];
export const GATE_TIMINGS = ["Before", "After"] as const;
export type GateTiming = (typeof GATE_TIMINGS)[number];
export const GATE_STATES = ["Pending", "Skipped", "Completed"] as const;
export const WEEKDAYS = [
  "Sunday",
  "Monday",
  "Tuesday",
  "Wednesday",
  "Thursday",
  "Friday",
  "Saturday",
] as const;
export type Weekday = (typeof WEEKDAYS)[number];
export const SKIP_TYPES = ["Member", "Group", "Stage", "AfterStageWait"] as const;
export type SkipType = (typeof SKIP_TYPES)[number];
/** As of staged update runs of resources. */
export const RUN_REQUESTS = ["Initialize", "Run", "Stop"] as const;
export const RUN_OUTCOMES = ["Succeeded", "CompletedWithFailures", "Failed"] as const;
export type RunOutcome = (typeof RUN_OUTCOMES)[number];
export const UPGRADE_CHANNELS = [
  "Rapid",
  "Stable",
  "TargetKubernetesVersion",
  "NodeImage",
  "SecurityPatch",
] as const;

/** Members by the labels of their MemberClusters. `byLabel` is the text of a Kubernetes selector. */
export interface UpdateMemberSelector extends LabelSelector {
  byLabel?: string;
}

export interface ScheduledStart {
  startDay: Weekday;
  /** "HH:mm". */
  startTime: string;
  /** "+HH:mm" or "-HH:mm", up to 14 hours. */
  utcOffset: string;
}

export interface GateConfiguration {
  displayName: string;
  type: GateType;
  scheduledStartConfiguration?: ScheduledStart;
}

/** What stages and groups have in common. */
export interface UpdateSegment {
  name: string;
  memberSelector?: UpdateMemberSelector;
  /** "N" or "P%" of the members, rounded down, at least 1. Absent: 50 in a stage, 1 in a group. */
  maxConcurrency?: string;
  /** "N" or "P%" of the members, rounded up. Absent: 0. */
  maxAllowedFailures?: string;
  beforeGates?: GateConfiguration[];
  afterGates?: GateConfiguration[];
}

export interface UpdateStage extends UpdateSegment {
  groups?: UpdateSegment[];
  /** Unit: seconds. */
  afterStageWaitInSeconds?: number;
  /** Absent: members are not judged. Addition. */
  health?: HealthCheck;
}

/**
 * Numbers by name. A member reports `nodes`, `readyNodes`, `endpoints`, `readyEndpoints`, `servicesWithoutEndpoints`, `lookups` and
 * `failedLookupsPerMille`, and other programs theirs; the hub adds `probers`, `flows`, `failedFlowsPerMille` and
 * `failedServices`.
 */
export type Measurements = Readonly<Record<string, number>>;

export interface HealthRule {
  name: string;
  /** CEL over `object.now`, `object.before` (measurements) and `object.phase` ("during" or "after"). */
  expression: string;
}

/** Judges each member of a stage during its upgrade and for some time after it: one that is not healthy has failed. */
export interface HealthCheck {
  /** How long a member is watched after its upgrade. Absent: 300. Unit: seconds. */
  watchSeconds?: number;
  /** How long a rule may be broken. Absent: 120. Unit: seconds. */
  toleratedSeconds?: number;
  /** Absent: services keep endpoints, and flows and lookups succeed, as before; after the upgrade, nodes and endpoints are ready. */
  rules?: HealthRule[];
  /** Absent: with its defaults. */
  flows?: FlowCheck;
  /** What becomes of a member that failed. Absent: "Stop". */
  onFailure?: (typeof FAILURE_ACTIONS)[number];
}

/** "Stop": its engine is stopped, where it can be. "Rollback": and leads it back to what it had, where it can. */
export const FAILURE_ACTIONS = ["Stop", "Rollback"] as const;

/** Probes of the services that a member exports, by other members that import them. */
export interface FlowCheck {
  /** How many members probe each member. 0: none. Absent: 5. */
  probers?: number;
  /** With fewer reports flows are not judged. 1: a single member can fail others. Absent: 2. */
  minProbers?: number;
  paths?: FlowPath[];
}

/** What is asked by HTTP, besides ports whose `appProtocol` is "http". */
export interface FlowPath {
  /** "NAMESPACE/NAME". */
  service: string;
  /** The name of a port. Absent: all TCP ports. */
  port?: string;
  path: string;
}

export interface StrategySpec {
  stages: UpdateStage[];
}

/** On the hub, without a namespace. */
export interface UpdateStrategy extends KubeObject {
  spec: StrategySpec;
}

export interface ManagedClusterUpdate {
  upgrade: {
    type: UpgradeType;
    /** Of Full and ControlPlaneOnly. */
    kubernetesVersion?: string;
    /** Of Components. Addition. */
    componentsVersion?: string;
  };
  nodeImageSelection?: {
    type: (typeof NODE_IMAGE_SELECTIONS)[number];
    customNodeImageVersions?: { version: string }[];
  };
}

export interface SkipTarget {
  type: SkipType;
  name: string;
}

/** `status` of a run, stage, group, member, gate or wait. */
export interface UpdateStatus {
  state: UpdateState;
  /** RFC 3339. */
  startTime?: string;
  completedTime?: string;
  error?: { code: string; message: string };
}

export interface MemberUpdateStatus {
  status: UpdateStatus;
  name: string;
  /** The id of the upgrade that its engine carries out. */
  operationId?: string;
  message?: string;
  /** What the upgrade leads to, fixed at its start. Addition. */
  target?: UpgradeTarget;
  /** The attempt of the run in which it was started last. Addition. */
  attempt?: number;
  /** What was measured when the upgrade began. Addition. */
  before?: Measurements;
  /** Since when a rule of the stage's health check is broken. RFC 3339. Addition. */
  unhealthySince?: string;
  /** When the engine ended; the member is watched from then on. RFC 3339. Addition. */
  engineEndTime?: string;
  /** Since when other members probe it. RFC 3339. Addition. */
  probedSince?: string;
  /** What it had when the upgrade began: where a rollback leads. Addition. */
  previous?: UpgradeTarget;
  /** Of a member that failed. Addition. */
  rollback?: RollbackStatus;
}

export const ROLLBACK_STATES = ["Running", "Succeeded", "Failed"] as const;

export interface RollbackStatus {
  state: (typeof ROLLBACK_STATES)[number];
  /** RFC 3339. */
  startTime: string;
  /** Why the member is rolled back: its error when that has ended. */
  reason: { code: string; message: string };
  message?: string;
}

export interface UpgradeTarget {
  type: UpgradeType;
  /** "1.33.4", with a build as engines have it ("+k3s1"). */
  kubernetesVersion?: string;
  /** One version for each family of images. */
  nodeImages?: string[];
  /** Of Fairlead. */
  componentsVersion?: string;
}

/** The version of our programs that an update run gave a member, in place of that of its profile. */
export interface ComponentsPin {
  /** The id of the upgrade. */
  operation: string;
  version: string;
  /** The ClusterMeshProfile that the member belonged to, and its version then. The pin counts until one of them changes. */
  profile: string;
  over?: string;
  /** True if the upgrade is not in progress any more, although agents do not run the version: it has failed, or its run was deleted. The version stays. */
  stopped?: boolean;
}

export interface UpdateGateStatus {
  displayName: string;
  gateId?: string;
  status: UpdateStatus;
}

interface SegmentStatus {
  status: UpdateStatus;
  name: string;
  beforeGates?: UpdateGateStatus[];
  afterGates?: UpdateGateStatus[];
  failureCount: number;
  maxAllowedFailures: number;
  maxConcurrency: number;
}

export interface UpdateGroupStatus extends SegmentStatus {
  members: MemberUpdateStatus[];
}

export interface UpdateStageStatus extends SegmentStatus {
  groups: UpdateGroupStatus[];
  afterStageWaitStatus?: { status: UpdateStatus; waitDurationInSeconds: number };
}

export type StateCounts = Partial<Record<UpdateState, number>>;

export interface UpdateRunStatus {
  status: UpdateStatus;
  stages: UpdateStageStatus[];
  failureCount: number;
  nodeImageSelection?: { selectedNodeImageVersions: { version: string }[] };
  /** The strategy that is carried out: a copy. Addition. */
  strategy?: StrategySpec;
  /** The UpdateStrategy that it was copied from. Addition. */
  strategyName?: string;
  /** The value of `spec.attempt` that was started last. Addition. */
  attempt?: number;
  /** How many of `spec.skip` were carried out. Addition. */
  skipped?: number;
  outcome?: RunOutcome;
  /** Why the run as a whole is pending. Addition. */
  message?: string;
  /** Members by state. Addition. */
  counts?: StateCounts;
  /** How many of those that failed have again what they had. Addition. */
  rolledBack?: number;
  /** Members of the fleet that no group has. Addition. */
  membersInNoGroup?: string[];
  observedGeneration?: number;
}

/** On the hub, without a namespace. */
export interface UpdateRun extends KubeObject {
  spec: {
    /** Not together with `strategy`. Neither: all members, one after another. */
    updateStrategyName?: string;
    strategy?: StrategySpec;
    managedClusterUpdate: ManagedClusterUpdate;
    /** Written by the hub. */
    autoUpgradeProfileName?: string;
    /** Absent: "Initialize". */
    state?: (typeof RUN_REQUESTS)[number];
    /** A higher number starts a run again that failed. Absent: 1. */
    attempt?: number;
    /** Members, groups, stages and waits that are passed over. Entries are only added. */
    skip?: SkipTarget[];
  };
  status?: UpdateRunStatus;
}

/** On the hub, without a namespace; its name is a GUID. Made by the hub when a run waits for it. */
export interface Gate extends KubeObject {
  spec: {
    displayName: string;
    gateType: GateType;
    target: {
      /** The run. */
      id: string;
      updateRunProperties: { name: string; stage?: string; group?: string; timing: GateTiming };
    };
    /** When a ScheduledStart completes. RFC 3339. */
    scheduledStartTime?: string;
    /** An approver sets it to "Completed". */
    state: (typeof GATE_STATES)[number];
  };
}

/** On the hub, without a namespace: starts runs when new versions are in the catalogs. */
export interface AutoUpgradeProfile extends KubeObject {
  spec: {
    /** Absent: all members, one after another. */
    updateStrategyName?: string;
    channel: (typeof UPGRADE_CHANNELS)[number];
    nodeImageSelection?: { type: "Latest" | "Consistent" };
    disabled?: boolean;
    /** "1.33". */
    targetKubernetesVersion?: string;
    longTermSupport?: boolean;
  };
  status?: {
    lastTriggeredAt?: string;
    lastTriggerStatus?: "Succeeded" | "Failed";
    lastTriggerError?: { code: string; message: string };
    lastTriggerUpgradeVersions?: string[];
    lastTriggerMessage?: string;
  };
}

/** On the hub, without a namespace: versions that clusters of a region can have. */
export interface ReleaseCatalog extends KubeObject {
  spec: {
    /** Absent: every region. */
    region?: string;
    kubernetesVersions?: { version: string; preview?: boolean; longTermSupport?: boolean }[];
    /** The family is the part of the version before the last "-". */
    nodeImages?: { version: string; securityPatch?: boolean; os?: "Linux" | "Windows" }[];
    /** Versions of Fairlead, with the minor versions of Kubernetes that they support: in place of what their programs say. */
    components?: { version: string; kubernetes: { from: string; to: string } }[];
  };
}

export interface UpgradeNode {
  name: string;
  /** Of its kubelet. */
  kubernetesVersion: string;
  /** Absent if the engine does not know it. */
  image?: string;
  ready: boolean;
}

/** The state of a cluster as its engine reports it. */
export interface ClusterUpgradeStatus {
  kubernetesVersion?: string;
  nodes?: UpgradeNode[];
  /** The upgrade that the engine carries out, or carried out last. */
  operation?: { id: string; state: "Running" | "Succeeded" | "Failed"; message?: string };
  /** While `spec.measure` is true. */
  measurements?: Measurements;
  /** What this member found of those that `spec.probes` names. */
  flows?: FlowReport[];
  /** RFC 3339. */
  observedAt?: string;
}

/** Asks a member to probe the services of another. */
export interface ProbeRequest {
  cluster: string;
  /** The report is about probes of this request. RFC 3339. */
  since: string;
  paths?: FlowPath[];
}

/** Of the last probes, up to five minutes. */
export interface FlowReport {
  cluster: string;
  since: string;
  /** Endpoints that could be probed. */
  targets: number;
  tried: number;
  failed: number;
  /** Services of which half of the probes failed. */
  failedServices?: number;
  /** The last failure. */
  message?: string;
}

/** Most members that one probes, and most that probe one. */
export const MAX_PROBES = 50;
export const MAX_PROBERS = 20;

/** In a member's mailbox, under its name: the spec by the hub, the status by the member. */
export interface ClusterUpgrade extends KubeObject {
  spec: {
    /** The engine, as the annotation of the MemberCluster names it. "": none, the member only reports. */
    engine: string;
    /** Absent: the member only reports. */
    operation?: {
      id: string;
      target: UpgradeTarget;
      /** The target is what the member had before. */
      rollback?: boolean;
      /** Ends the operation where the engine can; what it has begun may finish. */
      stop?: boolean;
      /** No run carries it out any more: an engine in the member finishes what it has begun, and begins nothing. */
      withdrawn?: boolean;
    };
    /** Whether measurements are reported. */
    measure?: boolean;
    /** Members whose services this one probes. */
    probes?: ProbeRequest[];
    /** Read by the hub alone. */
    components?: ComponentsPin;
  };
  status?: ClusterUpgradeStatus;
}

const VERSION = "fairlead.dev/v1alpha1";
export const UPDATE_RUNS = resource<UpdateRun>(VERSION, "UpdateRun", "updateruns", "Cluster");
export const UPDATE_STRATEGIES = resource<UpdateStrategy>(
  VERSION,
  "UpdateStrategy",
  "updatestrategies",
  "Cluster",
);
export const GATES = resource<Gate>(VERSION, "Gate", "gates", "Cluster");
export const AUTO_UPGRADE_PROFILES = resource<AutoUpgradeProfile>(
  VERSION,
  "AutoUpgradeProfile",
  "autoupgradeprofiles",
  "Cluster",
);
export const RELEASE_CATALOGS = resource<ReleaseCatalog>(
  VERSION,
  "ReleaseCatalog",
  "releasecatalogs",
  "Cluster",
);
export const CLUSTER_UPGRADES = resource<ClusterUpgrade>(VERSION, "ClusterUpgrade", "clusterupgrades");

/** Label of a MemberCluster: the one group of update strategies that the member is in. */
export const UPDATE_GROUP_LABEL = "fairlead.dev/update-group";
/** Labels of a MemberCluster that name its region, the first that is there. */
export const REGION_LABELS = ["fleet.azure.com/location", "topology.kubernetes.io/region"] as const;
/** Label of a MemberCluster: "true" if it gets patches of versions with long-term support. */
export const LONG_TERM_SUPPORT_LABEL = "fairlead.dev/long-term-support";
/** Annotation of a MemberCluster: the engine that upgrades it. */
export const UPGRADER_ANNOTATION = "fairlead.dev/upgrader";
/** Annotations of a MemberCluster: when upgrades of Kubernetes, and of node images, may begin. */
export const UPGRADE_SCHEDULE_ANNOTATION = "fairlead.dev/auto-upgrade-schedule";
export const NODE_OS_SCHEDULE_ANNOTATION = "fairlead.dev/node-os-upgrade-schedule";

/** Most stages of a strategy, as in KubeFleet; most groups of a stage, and members at once, as in Azure's product. */
export const MAX_STAGES = 31;
export const MAX_GROUPS = 50;
export const MAX_CONCURRENCY = 50;
