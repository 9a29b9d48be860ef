import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { atomicList, bool, int32, list, mapList, object, oneOf, text, time } from "../crd-schema.ts";
import { HEALTH, JUDGED_FIELDS } from "./health-schema.ts";
import { VERSION_PATTERN } from "./node-agents.ts";
import { memberSelector } from "./selector-schema.ts";
import {
  GATE_TYPES,
  MAX_CONCURRENCY,
  MAX_GROUPS,
  MAX_STAGES,
  NODE_IMAGE_SELECTIONS,
  UPDATE_STATES,
  UPGRADE_TYPES,
  WEEKDAYS,
} from "./v1alpha1/updates.ts";

/** The parts of which the kinds of update runs are made (`v1alpha1/updates.ts`). */

export function rules(...pairs: readonly (readonly [rule: string, message: string])[]): JsonSchema {
  return { "x-kubernetes-validations": pairs.map(([rule, message]) => ({ rule, message })) };
}

const NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
export const NAME = { minLength: 1, maxLength: 50, pattern: NAME_PATTERN };

/** For kinds whose objects users name. */
export const NAME_RULE = rules([
  `size(self.metadata.name) <= 50 && self.metadata.name.matches('${NAME_PATTERN}')`,
  "metadata.name must have at most 50 lower-case letters, digits and dashes, and begin and end with a letter or digit",
]);

export const KUBERNETES_VERSION_PATTERN = String.raw`^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?$`;
export const KUBERNETES_VERSION = { minLength: 5, maxLength: 128, pattern: KUBERNETES_VERSION_PATTERN };
export const MINOR_VERSION = {
  maxLength: 9,
  pattern: String.raw`^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})$`,
};
/** Of our own releases. */
export const COMPONENTS_VERSION = { minLength: 5, maxLength: 64, pattern: VERSION_PATTERN };
/** A family, a dash and the version within it. */
export const IMAGE_VERSION = {
  minLength: 3,
  maxLength: 128,
  pattern: "^[0-9A-Za-z][0-9A-Za-z._-]*-[0-9][0-9A-Za-z._]*$",
};

const SELECTOR = memberSelector(
  'A selector as text, such as "env in (prod,canary),!legacy". Not with the other fields. "" selects all.',
  "Members, by the labels of their MemberClusters.",
);

const SCHEDULE = object(
  {
    "startDay!": oneOf(WEEKDAYS),
    "startTime!": text('"HH:mm".', { maxLength: 5, pattern: String.raw`^([01]\d|2[0-3]):[0-5]\d$` }),
    "utcOffset!": text('"+HH:mm" or "-HH:mm", up to 14 hours.', {
      maxLength: 6,
      pattern: String.raw`^[+-]((0\d|1[0-3]):[0-5]\d|14:00)$`,
    }),
  },
  "Of a ScheduledStart: the gate completes when this time comes next after it was reached.",
);

const GATE_RULES = [
  [
    "has(self.scheduledStartConfiguration) == (self.type == 'ScheduledStart')",
    "scheduledStartConfiguration is required for ScheduledStart, and forbidden for Approval",
  ],
] as const;

function gates(description: string, timing: "before" | "after"): JsonSchema {
  const only = [
    [
      "self.type == 'Approval'",
      "type ScheduledStart is for beforeGates; after a group or stage use Approval",
    ],
  ] as const;
  const gate = object(
    {
      "displayName!": text("The name that approvers see.", { minLength: 1, maxLength: 100 }),
      "type!": oneOf(GATE_TYPES),
      scheduledStartConfiguration: SCHEDULE,
    },
    undefined,
    rules(...GATE_RULES, ...(timing === "after" ? only : [])),
  );
  return { ...mapList("displayName", gate, description), maxItems: 10 };
}

const CONCURRENCY = {
  maxLength: 4,
  pattern: String.raw`^(?:([1-9]\d*)|([1-9]\d?|100)%)$`,
  ...rules([
    `self.endsWith('%') || int(self) <= ${MAX_CONCURRENCY}`,
    `must be at most ${MAX_CONCURRENCY}, or a percentage`,
  ]),
};
const FAILURES = { maxLength: 4, pattern: String.raw`^(?:(0|[1-9]\d*)|(0|[1-9]\d?|100)%)$` };

function segment(what: "stage" | "group"): Record<string, JsonSchema> {
  const concurrency = what === "stage" ? MAX_CONCURRENCY : 1;
  return {
    "name!": text(
      what === "group"
        ? `Without memberSelector, its members are those whose label fairlead.dev/update-group has this value.`
        : undefined,
      NAME,
    ),
    memberSelector: SELECTOR,
    maxConcurrency: text(
      `Most members that are upgraded at once: a number, or a percentage of the members, rounded down, at least 1. Default: ${concurrency}.`,
      CONCURRENCY,
    ),
    maxAllowedFailures: text(
      "Most members that may fail before no other is begun: a number, or a percentage of the members, rounded up. Default: 0.",
      FAILURES,
    ),
    beforeGates: gates(`Completed before the ${what} begins.`, "before"),
    afterGates: gates(`Completed before the ${what} ends, once all its members are done.`, "after"),
  };
}

const GROUP = object(segment("group"));

const isNumber = (of: string): string => `(has(${of}.maxConcurrency) && !${of}.maxConcurrency.endsWith('%'))`;

const STAGE = object(
  {
    ...segment("stage"),
    groups: {
      ...mapList(
        "name",
        GROUP,
        "Upgraded in parallel. Absent: one group of the members that memberSelector selects.",
      ),
      minItems: 1,
      maxItems: MAX_GROUPS,
    },
    afterStageWaitInSeconds: int32(
      "How long to wait after the last member, at the same time as afterGates. Default: 0. Unit: seconds.",
      { minimum: 0, maximum: 7_776_000 },
    ),
    health: HEALTH,
  },
  undefined,
  rules(
    ["has(self.groups) || has(self.memberSelector)", "groups or memberSelector is required"],
    [
      `!has(self.groups) || !${isNumber("self")} || self.groups.all(g, !${isNumber("g")} || int(g.maxConcurrency) <= int(self.maxConcurrency))`,
      "maxConcurrency of a group must not be above that of its stage",
    ],
  ),
);

export const STRATEGY_FIELDS = {
  "stages!": {
    ...mapList("name", STAGE, "Carried out one after another."),
    minItems: 1,
    maxItems: MAX_STAGES,
  },
};

export const IMAGE_SELECTION = oneOf(
  NODE_IMAGE_SELECTIONS,
  '"Latest": the newest version in the region of each cluster when it begins. "Consistent": the newest version in all regions of the run when it starts. "Custom": customNodeImageVersions.',
);

export const CLUSTER_UPDATE = object(
  {
    "upgrade!": object(
      {
        "type!": oneOf(
          UPGRADE_TYPES,
          '"Full": control plane, nodes and node images. "ControlPlaneOnly" and "NodeImageOnly": one of them. "Components": fairlead node, and the fairlead dns and fairlead member that join installed, in members of ClusterMeshProfiles.',
        ),
        kubernetesVersion: text('Such as "1.33.4". Of Full and ControlPlaneOnly.', KUBERNETES_VERSION),
        componentsVersion: text("A release of Fairlead. Of Components.", COMPONENTS_VERSION),
      },
      undefined,
      rules(
        [
          "has(self.kubernetesVersion) == (self.type in ['Full', 'ControlPlaneOnly'])",
          "kubernetesVersion is required for Full and ControlPlaneOnly, and forbidden for NodeImageOnly and Components",
        ],
        [
          "has(self.componentsVersion) == (self.type == 'Components')",
          "componentsVersion is required for Components, and forbidden otherwise",
        ],
      ),
    ),
    nodeImageSelection: object(
      {
        "type!": IMAGE_SELECTION,
        customNodeImageVersions: list(
          object({
            "version!": text('A family, a dash and a version: "ubuntu-2404-20260801".', IMAGE_VERSION),
          }),
          "One version for each family of images; nodes of other families stay as they are.",
          { "x-kubernetes-list-type": "atomic", minItems: 1, maxItems: 20 },
        ),
      },
      "Absent: Latest.",
      rules(
        [
          "has(self.customNodeImageVersions) == (self.type == 'Custom')",
          "customNodeImageVersions is required for Custom, and forbidden otherwise",
        ],
        [
          "!has(self.customNodeImageVersions) || self.customNodeImageVersions.all(a, self.customNodeImageVersions.exists_one(b, a.version.substring(0, a.version.lastIndexOf('-')) == b.version.substring(0, b.version.lastIndexOf('-'))))",
          "customNodeImageVersions must have one version for each family",
        ],
      ),
    ),
  },
  "The upgrade of each member.",
  rules([
    "!has(self.nodeImageSelection) || self.upgrade.type != 'Components'",
    "nodeImageSelection is forbidden for Components",
  ]),
);

export const UPDATE_STATUS = object(
  {
    "state!": oneOf(UPDATE_STATES),
    startTime: time(),
    completedTime: time(),
    error: object({
      "code!": text(undefined, { maxLength: 64 }),
      "message!": text(undefined, { maxLength: 8192 }),
    }),
  },
  undefined,
);

export const PIN = object(
  {
    "operation!": text("The upgrade that pinned it.", { maxLength: 64 }),
    "version!": text(undefined, COMPONENTS_VERSION),
    "profile!": text("The ClusterMeshProfile that the member belonged to.", { maxLength: 253 }),
    over: text("The version of that profile.", { maxLength: 64 }),
    stopped: bool(
      "Whether the upgrade has failed, or its run is gone, so that it is not in progress any more.",
    ),
  },
  "The version of fairlead node in the member, in place of that of its profile: until the version of the profile changes.",
);

export const TARGET = object(
  {
    "type!": oneOf(UPGRADE_TYPES),
    kubernetesVersion: text(undefined, { maxLength: 128 }),
    nodeImages: { ...atomicList(text(undefined, { maxLength: 128 })), maxItems: 20 },
    componentsVersion: text(undefined, { maxLength: 64 }),
  },
  "What the upgrade leads to, fixed when it begins.",
);

export const OPERATION = object(
  {
    "id!": text(undefined, { minLength: 1, maxLength: 64 }),
    "target!": TARGET,
    rollback: bool("The target is what the member had before."),
    stop: bool("Ends the operation where the engine can. What it has begun may finish."),
    withdrawn: bool(
      "No run carries it out any more: an engine in the member finishes what it has begun, and begins nothing.",
    ),
  },
  "What to do. Absent: the member only reports.",
);

const GATES = atomicList(
  object({
    "displayName!": text(undefined, { maxLength: 100 }),
    gateId: text("The name of the Gate.", { maxLength: 36 }),
    "status!": UPDATE_STATUS,
  }),
);

const SEGMENT_STATUS = {
  "status!": UPDATE_STATUS,
  "name!": text(undefined, { maxLength: 50 }),
  beforeGates: GATES,
  afterGates: GATES,
  "failureCount!": int32("May be above maxAllowedFailures, because of members that are upgraded at once."),
  "maxAllowedFailures!": int32(),
  "maxConcurrency!": int32(),
};

const MEMBER_STATUS = object({
  "status!": UPDATE_STATUS,
  "name!": text(undefined, { maxLength: 63 }),
  operationId: text("The id of the upgrade that its engine carries out.", { maxLength: 64 }),
  message: text("Why it is pending or skipped, and how far the upgrade is.", { maxLength: 8192 }),
  target: TARGET,
  attempt: int32("The attempt of the run in which it began last."),
  ...JUDGED_FIELDS,
  previous: { ...TARGET, description: "What the member had when the upgrade began: where a rollback leads." },
});

export const STAGES_STATUS = atomicList(
  object({
    ...SEGMENT_STATUS,
    "groups!": atomicList(object({ ...SEGMENT_STATUS, "members!": atomicList(MEMBER_STATUS) })),
    afterStageWaitStatus: object({ "status!": UPDATE_STATUS, "waitDurationInSeconds!": int32() }),
  }),
);
