import { HEARTBEAT_SECONDS } from "./defaults.ts";
import { PLACED_ON_LEAVE } from "./v1beta1/types.ts";
import type {
  CustomResourceDefinition,
  JsonSchema,
  PrinterColumn,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  atomicList,
  CONDITIONS,
  NAME_FITS_LABEL,
  PLAIN_CONDITIONS,
  crd,
  int32,
  list,
  mapList,
  object,
  oneOf,
  text,
  textMap,
  time,
} from "../crd-schema.ts";

/** Kinds of `cluster.kubernetes-fleet.io`: membership. */

const group = "cluster.kubernetes-fleet.io";
const categories = ["fleet", "fleet-cluster"];

/** `resource.Quantity` (apimachinery, api/resource/quantity.go). */
const QUANTITIES: JsonSchema = {
  type: "object",
  additionalProperties: {
    anyOf: [{ type: "integer" }, { type: "string" }],
    pattern:
      "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
    "x-kubernetes-int-or-string": true,
  },
};

function statusOf(conditions: JsonSchema, more: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return object({
    conditions,
    agentStatus: list(
      object({
        "type!": text("The kind of agent."),
        conditions: CONDITIONS,
        lastReceivedHeartbeat: time("When the agent was heard of last."),
      }),
      "One entry per agent that runs in the cluster.",
    ),
    properties: {
      type: "object",
      description: "What is known of the cluster, by name.",
      additionalProperties: object({ "value!": text(), "observationTime!": time() }),
    },
    resourceUsage: object({
      capacity: QUANTITIES,
      allocatable: QUANTITIES,
      available: QUANTITIES,
      observationTime: time(),
    }),
    ...more,
  });
}

const HEARTBEAT = {
  ...int32("How often an agent reports. Unit: seconds.", { minimum: 1, maximum: 600 }),
  default: HEARTBEAT_SECONDS,
};
const NAMESPACES = { namespaces: textMap("Namespaces placed by the fleet, and the Work of each.") };

function memberCluster(more: Readonly<Record<string, JsonSchema>>, status: JsonSchema): JsonSchema {
  return object(
    {
      "spec!": object({
        "identity!": object(
          { "kind!": text(), "name!": text(), namespace: text(), apiGroup: text() },
          "The identity of the cluster's agents on the hub.",
          { "x-kubernetes-map-type": "atomic" },
        ),
        heartbeatPeriodSeconds: HEARTBEAT,
        taints: list(
          object({ "key!": text(), value: text(), "effect!": oneOf(["NoSchedule"]) }),
          "Keep placements away that do not tolerate them.",
          { maxItems: 100 },
        ),
        ...more,
      }),
      status,
    },
    "A cluster of the fleet. Its name is the cluster id.",
    NAME_FITS_LABEL,
  );
}

const PLACED = oneOf(
  PLACED_ON_LEAVE,
  "Addition. What becomes of placed objects when the member leaves: they stay (Keep, the default), the member deletes them (Delete), or they stay without AppliedWorks (Orphan).",
);

const DRAINED = mapList(
  "cluster",
  object({
    "cluster!": text("The id of the cluster."),
    "mode!": oneOf(["Soft", "Hard"], "Whether it still serves where no other cluster can."),
  }),
  "Addition. Members that new flows are kept away from.",
);

function internalMemberCluster(status: JsonSchema): JsonSchema {
  return object(
    {
      "spec!": object({
        "state!": text('"Join" or "Leave".'),
        placed: PLACED,
        heartbeatPeriodSeconds: HEARTBEAT,
        leaseDurationSeconds: int32(
          "Addition. How long the member's Lease in this namespace lives without renewal. Unit: seconds.",
          { minimum: 1 },
        ),
        suspects: mapList(
          "cluster",
          object({ "cluster!": text("The id of the cluster."), "since!": time() }),
          "Addition. Members whose leases expired. Endpoints in them are dropped where probes of them fail too.",
        ),
        drained: DRAINED,
        view: text(
          "Addition. The shared namespace from which the member reads services and endpoints, in addition to this one.",
        ),
        network: object(
          {
            "profile!": text("The name of the profile."),
            "mode!": oneOf(["flat", "parallel"], "How its members are connected."),
            ipv4: atomicList(text(), "The IPv4 prefixes of the member's fleet addresses."),
            ipv6: atomicList(text(), "The IPv6 prefixes of the member's fleet addresses."),
            version: text(
              "The version of fairlead node that the member installs, in place of that of its profile.",
            ),
          },
          "Addition. The ClusterMeshProfile that the member belongs to.",
        ),
      }),
      status,
    },
    "The hub's specification for the agents of a member, and their status.",
  );
}

const MEMBER_COLUMNS: readonly PrinterColumn[] = [
  { name: "Joined", type: "string", jsonPath: '.status.conditions[?(@.type=="Joined")].status' },
  AGE,
  {
    name: "Member-Agent-Last-Seen",
    type: "date",
    jsonPath: '.status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat',
  },
  {
    name: "Node-Count",
    type: "string",
    jsonPath: ".status.properties.kubernetes-fleet\\.io/node-count.value",
  },
  { name: "Available-CPU", type: "string", jsonPath: ".status.resourceUsage.available.cpu" },
  { name: "Available-Memory", type: "string", jsonPath: ".status.resourceUsage.available.memory" },
  {
    name: "Allocatable-CPU",
    type: "string",
    jsonPath: ".status.resourceUsage.allocatable.cpu",
    priority: 1,
  },
  {
    name: "Allocatable-Memory",
    type: "string",
    jsonPath: ".status.resourceUsage.allocatable.memory",
    priority: 1,
  },
];

const DELETE_OPTIONS = {
  deleteOptions: object({
    validationMode: {
      ...oneOf(["Skip", "Strict"], "Whether a member that still exports services may be deleted."),
      default: "Strict",
    },
    placed: PLACED,
  }),
};

export const CLUSTER_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    categories,
    kind: "MemberCluster",
    scope: "Cluster",
    shortNames: ["cluster"],
    versions: [
      {
        name: "v1",
        storage: false,
        schema: memberCluster({}, statusOf(CONDITIONS, {})),
        columns: MEMBER_COLUMNS,
      },
      {
        name: "v1beta1",
        schema: memberCluster(DELETE_OPTIONS, statusOf(CONDITIONS, NAMESPACES)),
        columns: MEMBER_COLUMNS,
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "InternalMemberCluster",
    shortNames: ["imc"],
    versions: [
      {
        name: "v1",
        storage: false,
        schema: internalMemberCluster(statusOf(PLAIN_CONDITIONS, { drained: DRAINED })),
        columns: [AGE],
      },
      {
        name: "v1beta1",
        schema: internalMemberCluster(statusOf(PLAIN_CONDITIONS, { ...NAMESPACES, drained: DRAINED })),
        columns: [AGE],
      },
    ],
  }),
];
