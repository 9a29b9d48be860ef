import type { Node, NodeCondition, Taint } from "@fairlead/kube/api/core/v1/types.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { POLICY_AT_BOOT, POLICY_AT_BOOT_REASONS, STARTUP_TAINT } from "#api/fairlead.dev/node-agents.ts";
import { someOf } from "./node-agents.ts";
import type { PolicyMember } from "./policy-engine.ts";

/**
 * From the boot of a node until its agent has written its policies, only two things can hold pods back: a table that the node loads before its
 * kubelet starts, and a taint. Pure.
 */

const BOOT = "; boot ";

export interface BootReport {
  /** The node's boot, as its kubelet reports it. */
  readonly boot: string;
  /** The boot at which the node loaded its table. Absent: it never did. */
  readonly restored?: string | undefined;
  /** The network plugin that enforces policies in place of the agent. */
  readonly engine?: string | undefined;
}

/** The condition of a Node whose agent has written its policies since the boot. */
export function describeBoot({ boot, restored, engine }: BootReport): NodeCondition {
  const { restored: ok, open, plugin } = POLICY_AT_BOOT_REASONS;
  const said = (status: "True" | "False", reason: string, message: string): NodeCondition => ({
    type: POLICY_AT_BOOT,
    status,
    reason,
    message: `${message}${BOOT}${boot}`,
  });
  if (engine !== undefined)
    return said("True", plugin, `${engine} enforces network policies from the boot on`);
  if (restored !== undefined && restored === boot)
    return said("True", ok, "the node loaded its last known policies before its kubelet started");
  return said(
    "False",
    open,
    "the node had no policies from its boot until fairlead node had written them: install the unit fairlead-policy.service",
  );
}

type BootNode = Pick<Node, "spec" | "status">;

function reportOf({ status }: BootNode): NodeCondition | undefined {
  return status?.conditions?.find((it) => it.type === POLICY_AT_BOOT);
}

/** Whether policies are in place since the boot that the kubelet reports. Undefined: no agent ever reported. */
function isProgrammed(node: BootNode): boolean | undefined {
  const report = reportOf(node);
  if (report === undefined) return undefined;
  const boot = node.status?.nodeInfo?.["bootID"] ?? "";
  return report.message?.endsWith(`${BOOT}${boot}`) === true;
}

/**
 * The taints that a Node is to have; undefined: it has them. The taint is put on when the node is cordoned, and so before it is drained and
 * boots, and when it has booted. It is taken off when its agent has written its policies. On nodes without an agent it stays as others
 * put it there: no agent may be meant to run on them.
 *
 * @param isHeld - Whether agents enforce policies in this cluster.
 */
export function planStartupTaint(node: BootNode, isHeld: boolean): Taint[] | undefined {
  const taints = node.spec?.taints ?? [];
  const hasTaint = taints.some((it) => it.key === STARTUP_TAINT);
  if (hasTaint === isDue(node, isHeld, hasTaint)) return undefined;
  if (!hasTaint) return [...taints, { key: STARTUP_TAINT, effect: "NoSchedule" }];
  return taints.filter((it) => it.key !== STARTUP_TAINT);
}

function isDue(node: BootNode, isHeld: boolean, hasTaint: boolean): boolean {
  if (!isHeld || reportOf(node)?.reason === POLICY_AT_BOOT_REASONS.plugin) return false;
  const isReady = isProgrammed(node);
  return isReady === undefined ? hasTaint : !isReady || node.spec?.unschedulable === true;
}

/** Whether a planner of the taint has something else to say of the node. */
export function isBootChanged(before: BootNode | undefined, after: BootNode | undefined): boolean {
  const said = (it: BootNode | undefined): string | undefined => {
    const report = it && reportOf(it);
    const taints = (it?.spec?.taints ?? []).some((one) => one.key === STARTUP_TAINT);
    return it && [it.spec?.unschedulable, taints, it.status?.nodeInfo?.["bootID"], report?.message].join(" ");
  };
  return said(before) !== said(after);
}

/** Whether pods of a member can be reached between the boot of a node and the start of its agent, where agents enforce policies. */
export function policyAtBoot(
  { mode, engine, agents }: PolicyMember,
  hasTaint: boolean,
): NewCondition | undefined {
  const isPlugins = engine !== undefined || agents.ofPlugin.length > 0;
  if (mode === undefined || isPlugins || agents.present.length === 0) return undefined;
  const { unrestored } = agents;
  if (unrestored.length === 0)
    return {
      type: POLICY_AT_BOOT,
      status: "True",
      reason: POLICY_AT_BOOT_REASONS.restored,
      message: "Nodes have their last known policies from their boot on.",
    };
  const unit = `install the unit fairlead-policy.service on ${someOf(unrestored)}`;
  return hasTaint
    ? {
        type: POLICY_AT_BOOT,
        status: "False",
        reason: "OnlyNewPodsWait",
        message: `New pods wait for fairlead node after the boot of a node, and pods that were there before do not: ${unit}.`,
      }
    : {
        type: POLICY_AT_BOOT,
        status: "False",
        reason: "NothingHoldsPodsBack",
        message: `From the boot of a node until fairlead node has written its policies, its pods can be reached by all: ${unit}, and run the member with --startup-taint.`,
      };
}
