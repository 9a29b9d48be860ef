import { FleetError } from "@fairlead/base/errors.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  APPROVAL_REQUESTS,
  CLUSTER_APPROVAL_REQUESTS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { approvalRequest, isApproved, type Timing } from "#updates/staged/approvals.ts";
import type { PlacementName } from "./read.ts";
import { readRun } from "./run.ts";

/** The approval of a stage of a staged update run, also before the run has reached the stage. */

export interface ApprovalQuestion extends PlacementName {
  readonly stage: string;
  readonly timing: Timing;
  /** Unit: milliseconds since the Unix epoch. */
  readonly nowMs: number;
}
export interface Approval {
  readonly name: string;
  /** "ahead": the run has not asked for it yet. */
  readonly outcome: "approved" | "ahead" | "unchanged";
}

const MANAGER = "fairlead-approve";

export async function approveOnHub(
  hub: KubeClient,
  { stage, timing, nowMs, ...of }: ApprovalQuestion,
  signal: AbortSignal,
): Promise<Approval> {
  const run = await readRun(hub, of, signal);
  const stages = (run.status?.stagedUpdateStrategySnapshot?.stages ?? []).map((it) => it.name);
  if (stages.length > 0 && !stages.includes(stage))
    throw new FleetError(
      "OPTION_INVALID",
      `run ${of.name} has no stage ${stage}; its stages are ${stages.join(", ")}`,
    );
  const kind = of.namespace === undefined ? CLUSTER_APPROVAL_REQUESTS : APPROVAL_REQUESTS;
  const wanted = approvalRequest(run, timing, stage);
  const key = objectKey(of.namespace, wanted.metadata.name);
  const found = await hub.find(kind, key, { signal });
  const request = found ?? (await hub.create(kind, wanted, { fieldManager: MANAGER, signal }));
  if (isApproved(request)) return { name: key, outcome: "unchanged" };
  const { generation = 1, resourceVersion } = request.metadata;
  const message = "approved by a user";
  const condition = {
    type: "Approved",
    status: "True" as const,
    reason: "Approved",
    message,
    observedGeneration: generation,
  };
  const conditions = setCondition(request.status?.conditions, condition, { now: () => nowMs });
  await hub.mergePatch(
    kind,
    keyOf(request),
    { metadata: { resourceVersion }, status: { conditions } },
    { subresource: "status", fieldManager: MANAGER, signal },
  );
  return { name: key, outcome: found === undefined ? "ahead" : "approved" };
}

export function renderApproval({ name, outcome }: Approval): string {
  if (outcome === "unchanged") return `approval request ${name} was approved before`;
  return `approval request ${name} is approved${outcome === "ahead" ? "; the run has not reached the stage yet" : ""}`;
}
