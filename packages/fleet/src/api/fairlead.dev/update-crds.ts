import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  atomicList,
  bool,
  crd,
  type CrdOptions,
  int32,
  int64,
  list,
  mapList,
  object,
  oneOf,
  text,
  time,
} from "../crd-schema.ts";
import { FLOW_REPORTS, MEASUREMENTS, PROBES } from "./health-schema.ts";
import {
  CLUSTER_UPDATE,
  COMPONENTS_VERSION,
  IMAGE_VERSION,
  KUBERNETES_VERSION,
  MINOR_VERSION,
  NAME,
  NAME_RULE,
  PIN,
  rules,
  STAGES_STATUS,
  STRATEGY_FIELDS,
  OPERATION,
  UPDATE_STATUS,
} from "./update-schema.ts";
import {
  GATE_STATES,
  GATE_TIMINGS,
  GATE_TYPES,
  RUN_OUTCOMES,
  RUN_REQUESTS,
  SKIP_TYPES,
  UPDATE_STATES,
  UPGRADE_CHANNELS,
} from "./v1alpha1/updates.ts";

/** Kinds of update runs of clusters (`v1alpha1/updates.ts`). */

type Version = CrdOptions["versions"][number];

function kind(
  name: string,
  version: Omit<Version, "name">,
  more: Partial<CrdOptions> = {},
): CustomResourceDefinition {
  return crd({
    group: "fairlead.dev",
    categories: ["fleet"],
    kind: name,
    scope: "Cluster",
    versions: [{ name: "v1alpha1", ...version }],
    ...more,
  });
}

const column = (name: string, jsonPath: string, type = "string") => ({ name, type, jsonPath });

const SKIP = object({
  "type!": oneOf(SKIP_TYPES),
  "name!": text("A wait has the name of its stage.", { minLength: 1, maxLength: 63 }),
});

const state = "(has(self.status) ? self.status.status.state : 'NotStarted')";
const request = (of: string): string => `(has(${of}.spec.state) ? ${of}.spec.state : 'Initialize')`;
const attempt = (of: string): string => `(has(${of}.spec.attempt) ? ${of}.spec.attempt : 1)`;
const skips = (of: string): string => `(has(${of}.spec.skip) ? ${of}.spec.skip : [])`;
const unchanged = (field: string): string =>
  `(has(self.spec.${field}) ? [self.spec.${field}] : []) == (has(oldSelf.spec.${field}) ? [oldSelf.spec.${field}] : [])`;
const isStarted = "has(self.status) && has(self.status.status.startTime)";

const RUN_RULES = rules(
  [
    `size(self.metadata.name) <= 50 && self.metadata.name.matches('${NAME.pattern}')`,
    "metadata.name must have at most 50 lower-case letters, digits and dashes, and begin and end with a letter or digit",
  ],
  [
    `${request("self")} == ${request("oldSelf")} || ${request("self")} != 'Initialize'`,
    "spec.state cannot become Initialize again",
  ],
  [
    `${request("self")} == ${request("oldSelf")} || ${request("self")} != 'Stop' || ${state} in ['NotStarted', 'Running', 'Pending']`,
    "spec.state can become Stop only while the run is Running or Pending",
  ],
  [
    `${request("self")} == ${request("oldSelf")} || ${request("self")} != 'Run' || ${state} in ['NotStarted', 'Stopped', 'Failed']`,
    "spec.state can become Run only while the run is NotStarted, Stopped or Failed",
  ],
  [
    `${attempt("self")} == ${attempt("oldSelf")} || (${attempt("self")} > ${attempt("oldSelf")} && ${state} in ['NotStarted', 'Stopped', 'Failed'])`,
    "spec.attempt can only be raised, and only while the run is Stopped or Failed",
  ],
  [
    `${skips("self")} == ${skips("oldSelf")} || (size(${skips("self")}) > size(${skips("oldSelf")}) && ${state} in ['Running', 'Pending'])`,
    "spec.skip can only get more entries, and only while the run is Running or Pending",
  ],
  [
    `!(${isStarted}) || (${unchanged("strategy")} && ${unchanged("updateStrategyName")})`,
    "the strategy of a run cannot change once the run has started",
  ],
  [unchanged("autoUpgradeProfileName"), "spec.autoUpgradeProfileName cannot change"],
  [
    `!(${isStarted}) || self.spec.managedClusterUpdate == oldSelf.spec.managedClusterUpdate`,
    "spec.managedClusterUpdate cannot change once the run has started",
  ],
);

const COUNTS = object(
  Object.fromEntries(UPDATE_STATES.map((it) => [it, int32()])),
  "How many members are in each state.",
);

const RUN = kind(
  "UpdateRun",
  {
    columns: [
      column("Type", ".spec.managedClusterUpdate.upgrade.type"),
      // The one that the type has.
      column("Version", ".spec.managedClusterUpdate.upgrade['kubernetesVersion','componentsVersion']"),
      column("State", ".status.status.state"),
      column("Outcome", ".status.outcome"),
      column("Failures", ".status.failureCount", "integer"),
      AGE,
    ],
    schema: object(
      {
        "spec!": object(
          {
            updateStrategyName: text(
              "An UpdateStrategy, copied when the run is created. Not with strategy. Neither: all members, one after another.",
              NAME,
            ),
            strategy: object(STRATEGY_FIELDS, "The stages of this run."),
            "managedClusterUpdate!": CLUSTER_UPDATE,
            autoUpgradeProfileName: text(
              "The AutoUpgradeProfile that made the run. Written by the hub.",
              NAME,
            ),
            state: oneOf(
              RUN_REQUESTS,
              '"Initialize" (the default): the run is planned only. "Run": it starts, or continues after Stop. "Stop": members that are being upgraded finish, and no other is begun.',
            ),
            attempt: int32(
              "A higher number starts a run again that is Failed or Stopped, at its first member that is not done. Default: 1.",
              { minimum: 1 },
            ),
            skip: list(SKIP, "What is passed over. Members that are being upgraded finish.", {
              "x-kubernetes-list-type": "atomic",
              maxItems: 1000,
            }),
          },
          undefined,
          rules([
            "!has(self.updateStrategyName) || !has(self.strategy)",
            "updateStrategyName and strategy cannot be used together",
          ]),
        ),
        status: object({
          "status!": UPDATE_STATUS,
          "stages!": STAGES_STATUS,
          "failureCount!": int32(),
          nodeImageSelection: object({
            "selectedNodeImageVersions!": atomicList(object({ "version!": text() })),
          }),
          strategy: {
            type: "object",
            "x-kubernetes-preserve-unknown-fields": true,
            description: "The strategy that is carried out.",
          },
          strategyName: text("The UpdateStrategy that it was copied from."),
          attempt: int32("The value of spec.attempt that was started last."),
          skipped: int32("How many entries of spec.skip were carried out."),
          outcome: oneOf(
            RUN_OUTCOMES,
            'Of a run that has ended. "CompletedWithFailures": members failed, not more than were allowed.',
          ),
          message: text("Why the run as a whole is pending.", { maxLength: 1024 }),
          counts: COUNTS,
          rolledBack: int32("How many of those that failed have again what they had."),
          membersInNoGroup: atomicList(text(), "Members of the fleet that are not part of the run."),
          observedGeneration: int64(),
        }),
      },
      "An upgrade of clusters, stage by stage.",
      RUN_RULES,
    ),
  },
  { shortNames: ["urun"] },
);

const STRATEGY = kind(
  "UpdateStrategy",
  {
    status: false,
    columns: [column("First-Stage", ".spec.stages[0].name"), AGE],
    schema: object({ "spec!": object(STRATEGY_FIELDS) }, "Stages and groups for UpdateRuns.", NAME_RULE),
  },
  { plural: "updatestrategies", shortNames: ["ustrategy"] },
);

const GATE = kind("Gate", {
  status: false,
  columns: [
    column("Run", ".spec.target.updateRunProperties.name"),
    column("Stage", ".spec.target.updateRunProperties.stage"),
    column("Group", ".spec.target.updateRunProperties.group"),
    column("Timing", ".spec.target.updateRunProperties.timing"),
    column("Type", ".spec.gateType"),
    column("State", ".spec.state"),
    AGE,
  ],
  schema: object(
    {
      "spec!": object(
        {
          "displayName!": text(undefined, { minLength: 1, maxLength: 100 }),
          "gateType!": oneOf(GATE_TYPES),
          "target!": object({
            "id!": text("The UID of the run.", { maxLength: 64 }),
            "updateRunProperties!": object({
              "name!": text("The run.", NAME),
              stage: text(undefined, NAME),
              group: text(undefined, NAME),
              "timing!": oneOf(GATE_TIMINGS),
            }),
          }),
          scheduledStartTime: time("When a ScheduledStart completes."),
          "state!": oneOf(GATE_STATES, 'Set it to "Completed" to approve.'),
        },
        undefined,
        rules(
          [
            "self.state == oldSelf.state || oldSelf.state == 'Pending'",
            "a gate that is Completed or Skipped does not change",
          ],
          [
            "self.displayName == oldSelf.displayName && self.gateType == oldSelf.gateType && self.target == oldSelf.target",
            "of a gate only state can be changed",
          ],
        ),
      ),
    },
    "What an UpdateRun waits for. Written by the hub; approved by setting spec.state to Completed.",
  ),
});

const PROFILE = kind("AutoUpgradeProfile", {
  columns: [
    column("Channel", ".spec.channel"),
    column("Disabled", ".spec.disabled", "boolean"),
    column("Last-Trigger", ".status.lastTriggeredAt", "date"),
    column("Status", ".status.lastTriggerStatus"),
    AGE,
  ],
  schema: object(
    {
      "spec!": object(
        {
          updateStrategyName: text("Absent: all members, one after another.", NAME),
          "channel!": oneOf(
            UPGRADE_CHANNELS,
            '"Rapid": the newest minor version. "Stable": the one before. "TargetKubernetesVersion": patches of targetKubernetesVersion. "NodeImage": node images, weekly. "SecurityPatch": security patches of Linux images.',
          ),
          nodeImageSelection: object({ "type!": oneOf(["Latest", "Consistent"]) }),
          disabled: bool("Starts no runs. Default: false."),
          targetKubernetesVersion: text('A minor version: "1.33".', MINOR_VERSION),
          longTermSupport: bool("Takes patches of long-term support as well. Of TargetKubernetesVersion."),
        },
        undefined,
        rules(
          [
            "has(self.targetKubernetesVersion) == (self.channel == 'TargetKubernetesVersion')",
            "targetKubernetesVersion is required for channel TargetKubernetesVersion, and forbidden otherwise",
          ],
          [
            "!has(self.longTermSupport) || !self.longTermSupport || self.channel == 'TargetKubernetesVersion'",
            "longTermSupport is for channel TargetKubernetesVersion only",
          ],
        ),
      ),
      status: object({
        lastTriggeredAt: time(),
        lastTriggerStatus: oneOf(["Succeeded", "Failed"]),
        lastTriggerError: object({ "code!": text(), "message!": text() }),
        lastTriggerUpgradeVersions: atomicList(text()),
        lastTriggerMessage: text(),
      }),
    },
    "Creates and starts UpdateRuns when ReleaseCatalogs have new versions.",
    NAME_RULE,
  ),
});

const CATALOG = kind("ReleaseCatalog", {
  status: false,
  columns: [column("Region", ".spec.region"), AGE],
  schema: object(
    {
      "spec!": object({
        region: text(
          "Of the members that it is for: their label fleet.azure.com/location or topology.kubernetes.io/region. Absent: all.",
          { minLength: 1, maxLength: 63 },
        ),
        kubernetesVersions: {
          ...mapList(
            "version",
            object({
              "version!": text(undefined, KUBERNETES_VERSION),
              preview: bool("Not installed by profiles, nor by runs."),
              longTermSupport: bool("Only for members with label fairlead.dev/long-term-support=true."),
            }),
          ),
          maxItems: 500,
        },
        nodeImages: {
          ...mapList(
            "version",
            object({
              "version!": text('A family, a dash and a version: "ubuntu-2404-20260801".', IMAGE_VERSION),
              securityPatch: bool("Has security patches only: for channel SecurityPatch."),
              os: oneOf(["Linux", "Windows"], "Default: Linux."),
            }),
          ),
          maxItems: 1000,
        },
        components: {
          ...mapList(
            "version",
            object({
              "version!": text("Of Fairlead.", COMPONENTS_VERSION),
              "kubernetes!": object({
                "from!": text(undefined, MINOR_VERSION),
                "to!": text(undefined, MINOR_VERSION),
              }),
            }),
            "Minor versions of Kubernetes that versions of Fairlead support, in place of those that their programs report: for releases that the hub does not know yet, and for versions of Kubernetes that you have tried.",
          ),
          maxItems: 100,
        },
      }),
    },
    "Versions that clusters of a region can be upgraded to. Written by users, or by what knows them.",
  ),
});

const UPGRADE = kind(
  "ClusterUpgrade",
  {
    columns: [
      column("Engine", ".spec.engine"),
      column("Target", ".spec.operation.target.kubernetesVersion"),
      column("Version", ".status.kubernetesVersion"),
      column("State", ".status.operation.state"),
      AGE,
    ],
    schema: object(
      {
        "spec!": object({
          "engine!": text('As annotation fairlead.dev/upgrader of the MemberCluster has it. "": none.', {
            maxLength: 512,
          }),
          operation: OPERATION,
          measure: bool("Whether the member reports measurements."),
          probes: PROBES,
          components: PIN,
        }),
        status: object({
          kubernetesVersion: text("Of the API server.", { maxLength: 128 }),
          nodes: {
            ...mapList(
              "name",
              object({
                "name!": text(undefined, { maxLength: 253 }),
                "kubernetesVersion!": text("Of the kubelet.", { maxLength: 128 }),
                image: text(undefined, { maxLength: 256 }),
                "ready!": bool(),
              }),
            ),
            maxItems: 5000,
          },
          operation: object({
            "id!": text(undefined, { maxLength: 64 }),
            "state!": oneOf(["Running", "Succeeded", "Failed"]),
            message: text(undefined, { maxLength: 4096 }),
          }),
          observedAt: time(),
          measurements: {
            ...MEASUREMENTS,
            description: "Numbers that health checks of stages read. Other programs may add some.",
          },
          flows: FLOW_REPORTS,
        }),
      },
      "An upgrade of one member. The hub writes the spec, the member the status.",
    ),
  },
  { scope: "Namespaced", categories: ["fleet"] },
);

export const UPDATE_CRDS: readonly CustomResourceDefinition[] = [
  RUN,
  STRATEGY,
  GATE,
  PROFILE,
  CATALOG,
  UPGRADE,
];
