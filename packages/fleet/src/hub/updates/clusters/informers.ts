import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  AUTO_UPGRADE_PROFILES,
  type AutoUpgradeProfile,
  CLUSTER_UPGRADES,
  type ClusterUpgrade,
  type Gate,
  GATES,
  RELEASE_CATALOGS,
  type ReleaseCatalog,
  UPDATE_RUNS,
  UPDATE_STRATEGIES,
  type UpdateRun,
  type UpdateStrategy,
} from "#api/fairlead.dev/v1alpha1/updates.ts";

/** What update runs of clusters read. */
export interface UpdateInformers {
  readonly updateRuns: Informer<UpdateRun>;
  readonly updateStrategies: Informer<UpdateStrategy>;
  readonly updateGates: Informer<Gate>;
  readonly upgradeProfiles: Informer<AutoUpgradeProfile>;
  readonly releaseCatalogs: Informer<ReleaseCatalog>;
  /** In mailboxes. */
  readonly clusterUpgrades: Informer<ClusterUpgrade>;
}

export function createUpdateInformers(client: KubeClient, deps: RuntimeDeps): UpdateInformers {
  return {
    updateRuns: createInformer(client, UPDATE_RUNS, {}, deps),
    updateStrategies: createInformer(client, UPDATE_STRATEGIES, {}, deps),
    updateGates: createInformer(client, GATES, { indexes: { run: (it) => [runOf(it)] } }, deps),
    upgradeProfiles: createInformer(client, AUTO_UPGRADE_PROFILES, { fieldManager: HUB_MANAGER }, deps),
    releaseCatalogs: createInformer(client, RELEASE_CATALOGS, {}, deps),
    clusterUpgrades: createInformer(client, CLUSTER_UPGRADES, { fieldManager: HUB_MANAGER }, deps),
  };
}

/** The name of the run that waits for a gate. */
export function runOf({ spec }: Gate): string {
  return spec.target.updateRunProperties.name;
}
