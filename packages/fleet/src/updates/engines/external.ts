import type { ClusterUpgrade } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { EXTERNAL_ENGINE, type UpgradeOperation } from "./upgrader.ts";

/** Operations of programs that watch ClusterUpgrades on the hub. Pure. */

/**
 * The operation that no program has taken yet. A program takes one by a write of its id into the status, with the resourceVersion
 * that it has read, before it does anything (docs/guide/upgrades.md).
 */
export function untakenOperation({ spec, status }: ClusterUpgrade): UpgradeOperation | undefined {
  const { engine, operation } = spec;
  return engine === EXTERNAL_ENGINE && status?.operation?.id !== operation?.id ? operation : undefined;
}

/** Whether the operation is over because it was stopped before a program took it. One that takes it nevertheless has it in progress. */
export function isWithdrawn(upgrade: ClusterUpgrade): boolean {
  return untakenOperation(upgrade)?.stop === true;
}
