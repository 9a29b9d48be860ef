import type {
  CustomResourceDefinition,
  JsonSchema,
  PrinterColumn,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  CONDITIONS,
  type CrdOptions,
  crd,
  list,
  NAME_FITS_LABEL,
  object,
  oneOf,
  text,
  time,
} from "../crd-schema.ts";
import {
  APPLY_STRATEGY,
  CATEGORIES,
  GROUP,
  immutable,
  intOrPercent,
  NAMESPACED_NAME,
  rules,
  SELECTOR,
  type Version,
  withDefault,
} from "./schemas.ts";

/** Staged update runs of placements. */

const TASKS = ["TimedWait", "Approval"];

const DURATION = "(?:(?:0|[1-9][0-9]*)(\\.[0-9]+)?(?:s|m|h))+";

function tasks(version: Version, description: string, more: JsonSchema): JsonSchema {
  const pattern = version === "v1alpha1" ? `^(?:0|${DURATION})$` : `^${DURATION}$`;
  return list(
    object({
      "type!": oneOf(TASKS),
      waitTime: text("With TimedWait: how long, such as 1h30m.", { pattern }),
    }),
    description,
    more,
  );
}
const NO_WAIT_TIME = [
  "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
  "AfterStageTaskType is Approval, waitTime is not allowed",
] as const;
const AFTER = rules(NO_WAIT_TIME, [
  "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
  "AfterStageTaskType is TimedWait, waitTime is required",
]);
const BEFORE = rules(NO_WAIT_TIME, [
  "!self.exists(e, e.type == 'TimedWait')",
  "BeforeStageTaskType cannot be TimedWait",
]);

const STAGE_ADDITIONS: Readonly<Record<string, JsonSchema>> = {
  progressDeadline: text("Addition. How long a cluster may take; then it has failed. Absent: no limit.", {
    pattern: `^${DURATION}$`,
  }),
  maxFailures: intOrPercent(
    "Addition. Clusters that may fail before the stage fails. Percentages are rounded up. Absent: 0.",
    {
      pattern: "^(100|[0-9]{1,2})%$",
      ...rules(["type(self) != int || self >= 0", "maxFailures must be at least 0"]),
    },
  ),
  onFailure: oneOf(
    ["Stop", "Rollback"],
    "Addition. Rollback: the clusters of a failed stage get back what they had. Absent: Stop.",
  ),
};

function strategySpec(version: Version): JsonSchema {
  const isOld = version === "v1alpha1";
  return object({
    "stages!": list(
      object({
        "name!": text(undefined, { maxLength: 63, pattern: "^[a-z0-9]+$" }),
        labelSelector: { ...SELECTOR, description: "Absent: no cluster. Empty: every cluster." },
        sortingLabelKey: text("The label whose integers order the clusters. Absent: by name."),
        ...(isOld
          ? {}
          : {
              maxConcurrency: intOrPercent(
                "Clusters at a time. Percentages are rounded down, to 1 at least.",
                {
                  default: 1,
                  pattern: "^(100|[1-9][0-9]?)%$",
                  ...rules([
                    "self == null || type(self) != int || self >= 1",
                    "maxConcurrency must be at least 1",
                  ]),
                },
              ),
              beforeStageTasks: tasks(version, "What the stage waits for.", { maxItems: 1, ...BEFORE }),
            }),
        afterStageTasks: tasks(version, "What the next stage waits for.", {
          maxItems: 2,
          ...(isOld ? {} : AFTER),
        }),
        ...(isOld ? {} : STAGE_ADDITIONS),
      }),
      "Updated one after another.",
      { maxItems: 31 },
    ),
  });
}

function taskStatus(maxItems: number): JsonSchema {
  return list(
    object({ "type!": oneOf(TASKS), approvalRequestName: text(), conditions: CONDITIONS }),
    undefined,
    { maxItems },
  );
}
function stageStatus(version: Version): JsonSchema {
  return object({
    "stageName!": text(),
    "clusters!": list(
      object({
        "clusterName!": text(),
        resourceOverrideSnapshots: list(NAMESPACED_NAME),
        clusterResourceOverrideSnapshots: list(text()),
        conditions: CONDITIONS,
      }),
    ),
    ...(version === "v1alpha1" ? {} : { beforeStageTaskStatus: taskStatus(1) }),
    afterStageTaskStatus: taskStatus(2),
    startTime: time(),
    endTime: time(),
    conditions: CONDITIONS,
  });
}

const TRANSITIONS = rules(
  ...(
    [
      ["Initialize", "Stop"],
      ["Run", "Initialize"],
      ["Stop", "Initialize"],
    ] as const
  ).map(
    ([from, to]) =>
      [
        `!(has(oldSelf.state) && oldSelf.state == '${from}' && self.state == '${to}')`,
        `invalid state transition: cannot transition from ${from} to ${to}`,
      ] as const,
  ),
);

function runSpec(version: Version): JsonSchema {
  if (version === "v1alpha1")
    return object(
      {
        "placementName!": text("The placement.", { maxLength: 255 }),
        "resourceSnapshotIndex!": text("The index of the resource snapshot to roll out."),
        "stagedRolloutStrategyName!": text("The strategy."),
      },
      undefined,
      immutable("The spec field"),
    );
  return object(
    {
      "placementName!": text("The placement.", { maxLength: 255, ...immutable("placementName") }),
      resourceSnapshotIndex: text("The index of the resource snapshot to roll out. Absent: the latest.", {
        ...immutable("resourceSnapshotIndex"),
      }),
      "stagedRolloutStrategyName!": text("The strategy.", { ...immutable("stagedRolloutStrategyName") }),
      state: withDefault(oneOf(["Initialize", "Run", "Stop"], "What is to be done."), "Initialize"),
      onPlacementChange: oneOf(
        ["Abort", "Replan"],
        "Addition. Replan: clusters that join or leave the placement are added to and taken out of the stages. Absent: Abort.",
      ),
    },
    undefined,
    TRANSITIONS,
  );
}

function run(version: Version): JsonSchema {
  const isOld = version === "v1alpha1";
  return object(
    {
      "spec!": runSpec(version),
      status: object({
        policySnapshotIndexUsed: text(),
        policyObservedClusterCount: { type: "integer" },
        ...(isOld ? {} : { resourceSnapshotIndexUsed: text() }),
        appliedStrategy: APPLY_STRATEGY,
        stagedUpdateStrategySnapshot: strategySpec(version),
        stagesStatus: list(stageStatus(version)),
        deletionStageStatus: stageStatus(version),
        conditions: CONDITIONS,
      }),
    },
    "Rolls out a resource snapshot of a placement, stage by stage.",
    isOld ? rules(["size(self.metadata.name) < 128", "metadata.name max length is 127"]) : NAME_FITS_LABEL,
  );
}

const APPROVAL = object(
  {
    "spec!": object(
      { "parentStageRollout!": text("The run."), "targetStage!": text("The stage.") },
      undefined,
      immutable("The spec field"),
    ),
    status: object({ conditions: CONDITIONS }),
  },
  "Asks for the approval of a stage: condition Approved, which a user sets to True.",
);

function statusOf(name: string, type: string): PrinterColumn {
  return { name, type: "string", jsonPath: `.status.conditions[?(@.type=="${type}")].status` };
}
function runColumns(version: Version): readonly PrinterColumn[] {
  return [
    { name: "Placement", type: "string", jsonPath: ".spec.placementName" },
    { name: "Resource-Snapshot-Index", type: "string", jsonPath: ".spec.resourceSnapshotIndex" },
    { name: "Policy-Snapshot-Index", type: "string", jsonPath: ".status.policySnapshotIndexUsed" },
    statusOf("Initialized", "Initialized"),
    ...(version === "v1alpha1" ? [] : [statusOf("Progressing", "Progressing")]),
    statusOf("Succeeded", "Succeeded"),
    AGE,
    { name: "Strategy", type: "string", jsonPath: ".spec.stagedRolloutStrategyName", priority: 1 },
  ];
}
const APPROVAL_COLUMNS: readonly PrinterColumn[] = [
  { name: "Update-Run", type: "string", jsonPath: ".spec.parentStageRollout" },
  { name: "Stage", type: "string", jsonPath: ".spec.targetStage" },
  statusOf("Approved", "Approved"),
  AGE,
];

interface Pair {
  readonly kind: string;
  readonly plural?: string;
  readonly shortNames: readonly [cluster: string, namespaced: string];
  readonly version: (
    name: Version,
    isCluster: boolean,
  ) => Omit<CrdOptions["versions"][number], "name" | "storage">;
}

/** The kind for ClusterResourcePlacements, which is older, and the one for ResourcePlacements. */
function pair({ kind, plural, shortNames, version }: Pair): CustomResourceDefinition[] {
  const of = (name: string, shortName: string, versions: readonly Version[]): CustomResourceDefinition =>
    crd({
      group: GROUP,
      kind: name,
      ...(plural === undefined ? {} : { plural: name.toLowerCase().replace(kind.toLowerCase(), plural) }),
      scope: name === kind ? "Namespaced" : "Cluster",
      shortNames: [shortName],
      categories: CATEGORIES,
      versions: versions.map((it) => ({
        name: it,
        storage: it === "v1beta1",
        ...version(it, name !== kind),
      })),
    });
  return [
    of(`Cluster${kind}`, shortNames[0], ["v1", "v1alpha1", "v1beta1"]),
    of(kind, shortNames[1], ["v1", "v1beta1"]),
  ];
}

export const STAGED_CRDS: readonly CustomResourceDefinition[] = [
  ...pair({
    kind: "StagedUpdateRun",
    shortNames: ["csur", "sur"],
    version: (name) => ({ schema: run(name), columns: runColumns(name) }),
  }),
  ...pair({
    kind: "StagedUpdateStrategy",
    plural: "stagedupdatestrategies",
    shortNames: ["csus", "sus"],
    version: (name, isCluster) => ({
      // Without a field, but published.
      status: isCluster,
      schema: object({ "spec!": strategySpec(name) }, "The stages of update runs."),
    }),
  }),
  ...pair({
    kind: "ApprovalRequest",
    shortNames: ["careq", "areq"],
    version: () => ({ schema: APPROVAL, columns: APPROVAL_COLUMNS }),
  }),
];
