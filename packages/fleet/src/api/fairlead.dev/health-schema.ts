import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { atomicList, int32, mapList, object, oneOf, text, time } from "../crd-schema.ts";
import { FAILURE_ACTIONS, MAX_PROBERS, MAX_PROBES, ROLLBACK_STATES } from "./v1alpha1/updates.ts";

/** Health checks of update runs, and what they look at (`v1alpha1/updates.ts`). */

const PATHS: JsonSchema = {
  ...atomicList(
    object({
      "service!": text("NAMESPACE/NAME of an exported Service.", { minLength: 3, maxLength: 127 }),
      port: text("The name of a port of it. Default: all TCP ports.", { maxLength: 63 }),
      "path!": text("A status below 500 is an answer.", {
        maxLength: 512,
        pattern: "^/[!-~]*$",
      }),
    }),
    'What is asked by HTTP. Ports with appProtocol "http" that no entry names are asked for "/", all others by TCP only.',
  ),
  maxItems: 20,
};

const FLOWS = object(
  {
    probers: int32("How many members probe each member. 0: none. Default: 5.", {
      minimum: 0,
      maximum: MAX_PROBERS,
    }),
    minProbers: int32(
      "With fewer reports flows are not judged. 1: a single member can fail others. Default: 2.",
      { minimum: 1, maximum: MAX_PROBERS },
    ),
    paths: PATHS,
  },
  "Probes of the services that a member exports, by others that import them. The median of their reports counts.",
);

const ROLLBACK = oneOf(
  FAILURE_ACTIONS,
  'What becomes of a member that failed. "Stop" (the default): its engine is stopped, where it can be. "Rollback": it is then led back to what it had, where its engine can.',
);

const seconds = { minimum: 0, maximum: 86_400 };

export const HEALTH = object(
  {
    watchSeconds: int32(
      "How long a member is watched after its upgrade. Default: 300. Unit: seconds.",
      seconds,
    ),
    toleratedSeconds: int32("How long a rule may be broken. Default: 120. Unit: seconds.", seconds),
    rules: {
      ...mapList(
        "name",
        object({
          "name!": text(undefined, { minLength: 1, maxLength: 100 }),
          "expression!": text(
            'CEL: "object.now.readyNodes >= object.before.readyNodes". object.phase is "during" or "after".',
            { minLength: 1, maxLength: 1024 },
          ),
        }),
        "Default: services keep endpoints, and flows and lookups succeed, as before; after the upgrade, nodes and endpoints are ready.",
      ),
      minItems: 1,
      maxItems: 20,
    },
    flows: FLOWS,
    onFailure: ROLLBACK,
  },
  "Judges each member during and after its upgrade: one that is not healthy has failed. Absent: members are not judged.",
);

export const MEASUREMENTS: JsonSchema = {
  type: "object",
  additionalProperties: { type: "integer", format: "int64" },
  maxProperties: 50,
};

/** Of the status of a member in a run. */
export const JUDGED_FIELDS: Readonly<Record<string, JsonSchema>> = {
  before: { ...MEASUREMENTS, description: "What was measured when the upgrade began." },
  unhealthySince: time("Since when a rule of the stage's health check is broken."),
  engineEndTime: time("When the engine ended; the member is watched from then on."),
  probedSince: time("Since when other members probe it."),
  rollback: object(
    {
      "state!": oneOf(ROLLBACK_STATES),
      "startTime!": time(),
      "reason!": object({
        "code!": text(undefined, { maxLength: 64 }),
        "message!": text(undefined, { maxLength: 8192 }),
      }),
      message: text(undefined, { maxLength: 8192 }),
    },
    "Of a member that failed.",
  ),
};

const CLUSTER = { minLength: 1, maxLength: 63 };

/** Of the spec of a ClusterUpgrade. */
export const PROBES: JsonSchema = {
  ...mapList(
    "cluster",
    object({ "cluster!": text(undefined, CLUSTER), "since!": time(), paths: PATHS }),
    "Members whose services this one probes.",
  ),
  maxItems: MAX_PROBES,
};

const count = { minimum: 0, maximum: 1_000_000 };

/** Of the status of a ClusterUpgrade. */
export const FLOW_REPORTS: JsonSchema = {
  ...mapList(
    "cluster",
    object({
      "cluster!": text(undefined, CLUSTER),
      "since!": time(),
      "targets!": int32("Endpoints that could be probed.", count),
      "tried!": int32(undefined, count),
      "failed!": int32(undefined, count),
      failedServices: int32("Services of which half of the probes failed.", count),
      message: text("The last failure.", { maxLength: 256 }),
    }),
    "What the last probes found, of those that spec.probes names.",
  ),
  maxItems: MAX_PROBES,
};
