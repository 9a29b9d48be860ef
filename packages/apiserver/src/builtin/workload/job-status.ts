import { sameJson } from "@fairlead/base/json.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { IMMUTABLE, invalid, required } from "#values/field-errors.ts";
import { fieldsAt, type Fields, itemsAt, numberAt, stringAt, textAt } from "@fairlead/base/fields.ts";
import { nonNegative } from "../rules.ts";

/**
 * What a controller may say of a Job. A rule counts only where what it is about changes, so that other parts of the status of a Job
 * that breaks it can be written. Source: k8s.io/kubernetes, pkg/apis/batch/validation and pkg/registry/batch/job.
 */
export function validateJobStatus(object: ApiObject, old: ApiObject): FieldError[] {
  const [after, before] = [viewOf(object), viewOf(old)];
  const changes = (...parts: readonly (keyof JobView)[]): boolean =>
    parts.some((it) => !sameJson(after[it], before[it]));
  const counts = ["active", "succeeded", "failed", "ready", "terminating"];
  return [
    ...counts.flatMap((it) => nonNegative(after.status[it], `status.${it}`)),
    ...endErrors(after, changes),
    ...timeErrors(after, before, changes),
    ...conditionErrors(after, before, changes),
    ...counterErrors(after, before, fieldsAt(object, "spec")),
  ];
}

interface JobView {
  readonly status: Fields;
  readonly isSuspended: boolean;
  readonly isComplete: boolean;
  readonly isFailed: boolean;
  readonly isFinished: boolean;
  readonly isFailing: boolean;
  readonly isSuccess: boolean;
  readonly active: number;
  readonly start: string | undefined;
  readonly end: string | undefined;
}

type Changes = (...parts: readonly (keyof JobView)[]) => boolean;

function viewOf(job: ApiObject): JobView {
  const status = fieldsAt(job, "status") ?? {};
  const is = (type: string): boolean =>
    itemsAt(status, "conditions").some(
      (it) => textAt(it, "type") === type && textAt(it, "status") === "True",
    );
  const [isComplete, isFailed] = [is("Complete"), is("Failed")];
  return {
    status,
    isSuspended: fieldsAt(job, "spec")?.["suspend"] === true,
    isComplete,
    isFailed,
    isFinished: isComplete || isFailed,
    isFailing: is("FailureTarget"),
    isSuccess: is("SuccessCriteriaMet"),
    active: numberAt(status, "active") ?? 0,
    start: stringAt(status, "startTime"),
    end: stringAt(status, "completionTime"),
  };
}

/** A refusal, and what has to hold for it. */
type Case = readonly [when: readonly boolean[], error: FieldError];

function refused(cases: readonly Case[]): FieldError[] {
  return cases.filter(([when]) => when.every((it) => it)).map(([, error]) => error);
}

/** What is over has begun, and nothing of it runs; of what runs a part is ready. */
function endErrors(job: JobView, changes: Changes): FieldError[] {
  const { status, isFinished, isComplete, active, start, end } = job;
  const countOf = (field: string): number => numberAt(status, field) ?? 0;
  const [ready, terminating] = [countOf("ready"), countOf("terminating")];
  const noEnd = "cannot set completionTime when there is no Complete=True condition";
  return refused([
    [
      [isFinished, changes("isFinished", "active"), active > 0],
      invalid("status.active", active, "active>0 is invalid for finished job"),
    ],
    [
      [isFinished, changes("isFinished", "status"), terminating > 0],
      invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"),
    ],
    [
      [changes("status"), ready > active],
      invalid("status.ready", ready, "cannot set more ready pods than active"),
    ],
    [
      [isFinished, changes("isFinished", "start"), start === undefined],
      required("status.startTime", "startTime is required for finished job"),
    ],
    [
      [isComplete, changes("isComplete", "end"), end === undefined],
      required("status.completionTime", "completionTime is required for Complete jobs"),
    ],
    [
      [!isComplete, changes("isComplete", "end"), end !== undefined],
      invalid("status.completionTime", end, noEnd),
    ],
  ]);
}

function timeErrors(after: JobView, before: JobView, changes: Changes): FieldError[] {
  const { start, end } = after;
  const errors: FieldError[] = [];
  const isBackwards = start !== undefined && end !== undefined && Date.parse(end) < Date.parse(start);
  if (isBackwards && changes("start", "end")) {
    errors.push(invalid("status.completionTime", end, "must be equal to or after `startTime`"));
  }
  if (end !== undefined && before.end !== undefined && end !== before.end) {
    errors.push(invalid("status.completionTime", end, IMMUTABLE));
  }
  if (before.start !== undefined && start !== before.start && !after.isSuspended) {
    errors.push(invalid("status.startTime", start, "field is immutable for unsuspended job once set"));
  }
  return errors;
}

function conditionErrors(after: JobView, before: JobView, changes: Changes): FieldError[] {
  const { isComplete, isFailed, isFailing, isSuccess } = after;
  const refusal = (why: string, ...when: readonly boolean[]): Case => [
    when,
    valueless("status.conditions", why),
  ];
  const pair = (first: string, second: string): string => `cannot set ${first} and ${second} conditions`;
  const lost = (type: string): string => `cannot disable the ${type}=True condition`;
  const alone = (type: string, needed: string): string =>
    `cannot set ${type}=True condition without the ${needed}=true condition`;
  return refused([
    refusal(pair("Complete=True", "Failed=true"), isComplete, isFailed, changes("isComplete", "isFailed")),
    refusal(
      pair("Complete=True", "FailureTarget=true"),
      isComplete,
      isFailing,
      changes("isComplete", "isFailing"),
    ),
    refusal(alone("Failed", "FailureTarget"), isFailed, !isFailing, changes("isFailed")),
    refusal(
      alone("Complete", "SuccessCriteriaMet"),
      isComplete,
      !isSuccess,
      changes("isComplete", "isSuccess"),
    ),
    refusal(pair("SuccessCriteriaMet=True", "Failed=true"), isSuccess, isFailed),
    refusal(pair("SuccessCriteriaMet=True", "FailureTarget=true"), isSuccess, isFailing),
    refusal(lost("terminal Failed"), before.isFailed, !isFailed),
    refusal(lost("terminal Complete"), before.isComplete, !isComplete),
    refusal(lost("terminal FailureTarget"), before.isFailing, !isFailing),
    refusal(lost("SuccessCriteriaMet"), before.isSuccess, !isSuccess),
    refusal(
      "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
      before.isComplete,
      !before.isSuccess,
      isSuccess,
    ),
  ]);
}

/** Upstream shows no value here. */
function valueless(field: string, why: string): FieldError {
  return { type: "FieldValueInvalid", field, message: `Invalid value: ${why}` };
}

/** Pods that have ended stay so; an indexed Job may be made smaller. */
function counterErrors(after: JobView, before: JobView, spec: Fields | undefined): FieldError[] {
  const isElastic =
    textAt(spec, "completionMode") === "Indexed" && spec?.["completions"] === spec?.["parallelism"];
  return ["failed", ...(isElastic ? [] : ["succeeded"])].flatMap((field) => {
    const [now, then] = [after, before].map(({ status }) => numberAt(status, field) ?? 0);
    if (now === undefined || then === undefined || now >= then) return [];
    return [invalid(`status.${field}`, now, `cannot decrease the ${field} counter`)];
  });
}
