import type { ClusterUpgrade } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { EXTERNAL_ENGINE, type UpgradeOperation } from "./upgrader.ts";

/** Operations that are not in the status yet: whether they have begun, and how they are ended. Pure. */

/**
 * The operation that no program has taken yet. A program that watches ClusterUpgrades on the hub takes one by a write of its id into the
 * status, with the resourceVersion that it has read, before it does anything (docs/guide/upgrades.md).
 */
function untakenOperation({ spec, status }: ClusterUpgrade): UpgradeOperation | undefined {
  const { engine, operation } = spec;
  return engine === EXTERNAL_ENGINE && status?.operation?.id !== operation?.id ? operation : undefined;
}

/**
 * What becomes of an operation that nothing has reported yet if no run wants it any more. An external program has to see that it is to
 * end, and has not begun. A member may have begun before it reports so, and a member that is away may begin much later.
 *
 * @returns Undefined for one that was reported, and for one that is withdrawn.
 */
export function withdrawn({ spec, status }: ClusterUpgrade): UpgradeOperation | undefined {
  const { engine, operation } = spec;
  if (operation === undefined || operation.stop === true || operation.withdrawn === true) return undefined;
  if (status?.operation?.id === operation.id) return undefined;
  return { ...operation, ...(engine === EXTERNAL_ENGINE ? { stop: true } : { withdrawn: true }) };
}

/** Whether the operation is over because it was stopped before a program took it. One that takes it nevertheless has it in progress. */
export function isWithdrawn(upgrade: ClusterUpgrade): boolean {
  return untakenOperation(upgrade)?.stop === true;
}
