import type { ApiObject, Strategy } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import { invalid, required, unlessNonNegative, unlessOneOf } from "../field-errors.ts";
import { ensureFields, fieldsAt, numberAt, textAt } from "../fields.ts";
import { validatePodTemplate } from "../pod/strategy.ts";
import { defaultCronJob, defaultJob } from "./defaults.ts";
import { validateJob, validateJobUpdate } from "./validate.ts";

const UID_LABEL = "batch.kubernetes.io/controller-uid";
const NAME_LABEL = "batch.kubernetes.io/job-name";
/** Names of the two labels before they had a prefix; pods still carry them. */
const OLD_UID_LABEL = "controller-uid";
const OLD_NAME_LABEL = "job-name";

export const jobStrategy: Partial<Strategy> = {
  applyDefaults: defaultJob,
  prepareForCreate: generateSelector,
  validateCreate: validateJob,
  validateUpdate: validateJobUpdate,
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
  Object.assign(ensureFields(metadata, "labels"), {
    [UID_LABEL]: uid,
    [NAME_LABEL]: name,
    [OLD_UID_LABEL]: uid,
    [OLD_NAME_LABEL]: name,
  });
  const selector = ensureFields(spec, "selector");
  ensureFields(selector, "matchLabels")[UID_LABEL] = uid;
}

export const cronJobStrategy: Partial<Strategy> = {
  applyDefaults: defaultCronJob,
  validateCreate: validateCronJob,
  validateUpdate: validateCronJob,
};

function validateCronJob(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const schedule = textAt(spec, "schedule");
  const template = fieldsAt(fieldsAt(fieldsAt(spec, "jobTemplate"), "spec"), "template");
  const errors = schedule === "" ? [required("spec.schedule")] : validateSchedule(schedule);
  return [
    ...errors,
    ...unlessOneOf("spec.concurrencyPolicy", spec?.["concurrencyPolicy"], ["Allow", "Forbid", "Replace"]),
    ...["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"].flatMap((it) =>
      unlessNonNegative(`spec.${it}`, spec?.[it]),
    ),
    ...validatePodTemplate(template, "spec.jobTemplate.spec.template"),
  ];
}

const NAMED_SCHEDULE = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly|every \d.*)$/;
const FIELD = /^[\d*/,\-?a-zA-Z]+$/;

function validateSchedule(schedule: string): FieldError[] {
  if (schedule.includes("TZ")) {
    return [
      invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
    ];
  }
  const fields = schedule.trim().split(/\s+/);
  if (NAMED_SCHEDULE.test(schedule) || (fields.length === 5 && fields.every((it) => FIELD.test(it))))
    return [];
  const detail = `expected exactly 5 fields, found ${fields.length}: ${JSON.stringify(fields)}`;
  return [invalid("spec.schedule", schedule, detail)];
}
