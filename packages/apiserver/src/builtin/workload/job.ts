import { sameJson } from "@fairlead/base/json.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, required } from "#values/field-errors.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  numberAt,
  stringAt,
  stringMapAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { fields, filled, nonNegative, oneOf, present, type Rule } from "../rules.ts";
import { cronProblem } from "./cron.ts";
import { defaultCronJob, defaultJob } from "./defaults.ts";
import { validateJobStatus } from "./job-status.ts";
import { validateJob, validateJobSpec, validateJobUpdate } from "./validate-job.ts";

const UID_LABEL = "batch.kubernetes.io/controller-uid";
const NAME_LABEL = "batch.kubernetes.io/job-name";
/** Names of the two labels before they had a prefix; pods still carry them. */
const OLD_UID_LABEL = "controller-uid";
const OLD_NAME_LABEL = "job-name";

export const jobStrategy: Partial<Strategy> = {
  defaultPropagation: "Orphan",
  propagationWarning:
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
  applyDefaults: (job) => {
    defaultJob(job);
    ensureFields(job, "spec")["manualSelector"] ??= false;
  },
  prepareForCreate: generateSelector,
  validateCreate: validateJob,
  // Upstream checks an updated job twice, and clients see each cause twice.
  validateUpdate: (job, old, { subresource }) =>
    subresource === "status"
      ? validateJobStatus(job, old)
      : [...validateJob(job), ...validateJobUpdate(job, old)],
  fieldSelectors: {
    "status.successful": (object) => String(numberAt(fieldsAt(object, "status"), "succeeded") ?? 0),
  },
};

/** A job finds its pods by its own uid, so that no two jobs can share pods. */
function generateSelector(job: ApiObject): void {
  const spec = ensureFields(job, "spec");
  if (spec["manualSelector"] === true) return;
  const { uid = "", name } = job.metadata;
  const metadata = ensureFields(ensureFields(spec, "template"), "metadata");
  const labels = ensureFields(metadata, "labels");
  const isDefaulted = sameJson(job.metadata.labels ?? {}, labels);
  Object.assign(labels, {
    [UID_LABEL]: uid,
    [NAME_LABEL]: name,
    [OLD_UID_LABEL]: uid,
    [OLD_NAME_LABEL]: name,
  });
  // Labels that the job has from its template grow with them.
  if (isDefaulted) job.metadata.labels = { ...stringMapAt(metadata, "labels") };
  const selector = ensureFields(spec, "selector");
  ensureFields(selector, "matchLabels")[UID_LABEL] = uid;
}

/** Jobs' names are the CronJob's with 11 characters behind them. */
const MAX_NAME = 52;

export const cronJobStrategy: Partial<Strategy> = {
  applyDefaults: defaultCronJob,
  validateCreate: (object) => [...validateCronJob(object), ...validateName(object)],
  validateUpdate: validateCronJob,
};

function validateName({ metadata: { name } }: ApiObject): FieldError[] {
  return name.length > MAX_NAME
    ? [invalid("metadata.name", name, `must be no more than ${MAX_NAME} characters`)]
    : [];
}

const cron: Rule = fields({
  startingDeadlineSeconds: present(nonNegative),
  concurrencyPolicy: filled("", oneOf("Allow", "Forbid", "Replace")),
});
const limits: Rule = fields({
  successfulJobsHistoryLimit: present(nonNegative),
  failedJobsHistoryLimit: present(nonNegative),
});

function validateCronJob(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const schedule = textAt(spec, "schedule");
  return [
    ...(schedule === "" ? [required("spec.schedule")] : validateSchedule(schedule)),
    ...cron(spec, "spec"),
    ...validateTimeZone(spec),
    ...limits(spec, "spec"),
    ...validateJobSpec(fieldsAt(fieldsAt(spec, "jobTemplate"), "spec") ?? {}, "spec.jobTemplate.spec"),
  ];
}

function validateTimeZone(spec: Fields | undefined): FieldError[] {
  const zone = stringAt(spec, "timeZone");
  if (zone === undefined) return [];
  const at = "spec.timeZone";
  if (zone === "") return [invalid(at, zone, "timeZone must be nil or non-empty string")];
  if (zone.toLowerCase() === "local")
    return [
      invalid(
        at,
        zone,
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
      ),
    ];
  return isTimeZone(zone) ? [] : [invalid(at, zone, `unknown time zone ${zone}`)];
}

function isTimeZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: zone }).format(0) !== "";
  } catch {
    return false;
  }
}

function validateSchedule(schedule: string): FieldError[] {
  if (schedule.includes("TZ")) {
    return [
      invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
    ];
  }
  const problem = cronProblem(schedule);
  return problem === undefined ? [] : [invalid("spec.schedule", schedule, problem)];
}
