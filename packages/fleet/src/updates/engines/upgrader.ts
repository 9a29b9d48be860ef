import type { ClusterUpgrade, ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";

export type UpgradeOperation = NonNullable<ClusterUpgrade["spec"]["operation"]>;

/** An engine that upgrades one cluster. It keeps nothing in memory: any call may be the first one after a crash. */
export interface ClusterUpgrader {
  /**
   * Reads versions, nodes and the state of an operation; `operation` of the result is undefined if that was not started.
   *
   * @param operation - Undefined: the engine need not be looked at.
   */
  observe(operation: UpgradeOperation | undefined, signal: AbortSignal): Promise<ClusterUpgradeStatus>;
  /**
   * Makes the engine carry out an operation; the same one again changes nothing.
   *
   * @throws {FleetError} `PRECONDITION_FAILED` if the engine cannot, however often it is asked.
   */
  start(operation: UpgradeOperation, signal: AbortSignal): Promise<void>;
  /**
   * Ends an operation where the engine can; what it has begun may finish. `observe` reports `Failed` when it has ended. Without
   * such an operation, or again, it changes nothing.
   */
  stop(operation: UpgradeOperation, signal: AbortSignal): Promise<void>;
  /** Why the engine cannot lead the cluster back to an older version; undefined: it can. `start` refuses rollbacks otherwise. */
  rollbackProblem(signal: AbortSignal): Promise<string | undefined>;
}

/** The versions of a cluster and its nodes, read from its own API server. */
export type ReadCluster = (signal: AbortSignal) => Promise<Omit<ClusterUpgradeStatus, "operation">>;

/** Carried out by a program that watches ClusterUpgrades on the hub, and reports the operation there: the member reports all else. */
export const EXTERNAL_ENGINE = "External";

export const OPERATION_ANNOTATION = "fairlead.dev/upgrade-operation";
/** On the objects of an operation that was stopped. */
export const STOPPED_ANNOTATION = "fairlead.dev/upgrade-stopped";
export const STOPPED_MESSAGE = "the upgrade was stopped";
/** Of the objects by which engines in members upgrade them. */
export const UPGRADE_LABEL = "fairlead.dev/upgrade";
