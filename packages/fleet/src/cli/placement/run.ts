import { oneLine } from "@fairlead/base/print.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  CLUSTER_STAGED_UPDATE_RUNS,
  STAGED_UPDATE_RUNS,
  type StagedUpdateRun,
  type StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { isOver } from "#updates/staged/advance.ts";
import { changedMs, statusOf } from "#updates/staged/conditions.ts";
import { followObject } from "../follow.ts";
import { renderTable } from "../table.ts";
import type { PlacementName } from "./read.ts";

/** How far a staged update run is, as its status says. */

export interface RunReport {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly spec: StagedUpdateRun["spec"];
  readonly status: NonNullable<StagedUpdateRun["status"]>;
}

export async function readRun(
  hub: KubeClient,
  { namespace, name }: PlacementName,
  signal: AbortSignal,
): Promise<StagedUpdateRun> {
  const of = runsOf(namespace);
  const run = await hub.find(of, objectKey(namespace, name), { signal });
  if (run !== undefined) return run;
  const other =
    namespace === undefined ? "; for a StagedUpdateRun give --namespace" : ` in namespace ${namespace}`;
  throw new FleetError("OPTION_INVALID", `${of.kind} ${name} does not exist${other}`);
}

function runsOf(namespace: string | undefined): Resource<StagedUpdateRun> {
  return namespace === undefined ? CLUSTER_STAGED_UPDATE_RUNS : STAGED_UPDATE_RUNS;
}

export async function runOnHub(hub: KubeClient, of: PlacementName, signal: AbortSignal): Promise<RunReport> {
  return reportOf(await readRun(hub, of, signal));
}

function reportOf({ metadata: { name, namespace }, spec, status = {} }: StagedUpdateRun): RunReport {
  return { kind: runsOf(namespace).kind, ...defined({ namespace }), name, spec, status };
}

/** Shows a run each time that it changes, until it is over or deleted. */
export async function followRunOnHub(
  hub: KubeClient,
  of: PlacementName,
  show: (report: RunReport) => void,
  at: { readonly deps: RuntimeDeps; readonly signal: AbortSignal },
): Promise<void> {
  const { metadata } = await readRun(hub, of, at.signal);
  const subject = { of: runsOf(of.namespace), key: objectKey(metadata.namespace, metadata.name) };
  const isEnough = (run: StagedUpdateRun): boolean => {
    show(reportOf(run));
    return isOver(run);
  };
  await followObject(hub, subject, isEnough, at);
}

export function renderRun({ kind, namespace, name, spec, status }: RunReport, nowMs: number): string {
  const full = namespace === undefined ? name : `${namespace}/${name}`;
  const index = status.resourceSnapshotIndexUsed ?? spec.resourceSnapshotIndex ?? "";
  const what = `${index === "" ? "" : `snapshot ${index} of `}placement ${spec.placementName}`;
  const said = latest(status.conditions);
  if (said === undefined) return `${kind} ${full}: ${what}; it has no status yet: is "fairlead hub" running?`;
  const { deletionStageStatus, stagesStatus = [] } = status;
  const removal =
    deletionStageStatus === undefined || deletionStageStatus.clusters.length === 0
      ? []
      : [deletionStageStatus];
  const stages = [...stagesStatus, ...removal];
  const rows = stages.flatMap((stage) =>
    stage.clusters.map((cluster) => ({ stage: stage.stageName, cluster })),
  );
  const age = (it: RowOf<typeof rows>): string => ageOf(it, nowMs);
  return [
    oneLine(`${kind} ${full}: ${what}`),
    oneLine(`${said.reason}: ${said.message}`),
    ...(stages.length === 0 ? [] : ["", renderStages(stages)]),
    ...(rows.length === 0
      ? []
      : [
          "",
          renderTable(
            [
              { head: "STAGE", cell: (it: RowOf<typeof rows>) => it.stage },
              { head: "CLUSTER", cell: (it) => it.cluster.clusterName },
              { head: "STATE", cell: (it) => latest(it.cluster.conditions)?.reason ?? "" },
              { head: "TOOK", cell: age },
              { head: "MESSAGE", cell: (it) => latest(it.cluster.conditions)?.message ?? "" },
            ],
            rows,
          ),
        ]),
  ].join("\n");
}

type RowOf<T> = T extends readonly (infer Row)[] ? Row : never;

function renderStages(stages: readonly StageUpdatingStatus[]): string {
  const count = (
    stage: StageUpdatingStatus,
    type: "Started" | "Succeeded",
    status: Condition["status"],
  ): string => String(stage.clusters.filter((it) => statusOf(it, type) === status).length);
  return renderTable(
    [
      { head: "STAGE", cell: (it) => it.stageName },
      { head: "STATE", cell: (it) => latest(it.conditions)?.reason ?? "" },
      { head: "CLUSTERS", cell: (it) => String(it.clusters.length) },
      { head: "STARTED", cell: (it) => count(it, "Started", "True") },
      { head: "DONE", cell: (it) => count(it, "Succeeded", "True") },
      { head: "FAILED", cell: (it) => count(it, "Succeeded", "False") },
      { head: "WAITS FOR", cell: waitsFor },
    ],
    stages,
  );
}

/** The approvals and waits that are begun and not over. */
function waitsFor({
  beforeStageTaskStatus = [],
  afterStageTaskStatus = [],
  conditions,
}: StageUpdatingStatus): string {
  if (latest(conditions)?.reason !== "StageUpdatingWaiting") return "";
  return [...beforeStageTaskStatus, ...afterStageTaskStatus]
    .filter(
      (it) =>
        statusOf(it, "ApprovalRequestApproved") !== "True" && statusOf(it, "WaitTimeElapsed") !== "True",
    )
    .map((it) => it.approvalRequestName ?? it.type)
    .join(", ");
}

/** The one that says most: conditions are in the order in which they are set. */
function latest(conditions: readonly Condition[] | undefined): Condition | undefined {
  return conditions?.at(-1);
}

/** From the start of the cluster to its end, or to now. */
function ageOf(
  { cluster }: { readonly cluster: StageUpdatingStatus["clusters"][number] },
  nowMs: number,
): string {
  const startedMs = changedMs(cluster, "Started");
  if (startedMs === undefined) return "";
  return `${Math.max(0, Math.round(((changedMs(cluster, "Succeeded") ?? nowMs) - startedMs) / 1000))} s`;
}
