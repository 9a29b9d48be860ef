import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  setDefault,
  setDefaults,
  textAt,
} from "@fairlead/base/fields.ts";
import { defaultPodSpec } from "../pod/defaults.ts";

/** Source: k8s.io/kubernetes, pkg/apis/apps/v1/defaults.go and pkg/apis/batch/v1/defaults.go. */

const JOB_BACKOFF_LIMIT = 6;
const UNLIMITED = 2 ** 31 - 1;

export function defaultDeployment(object: Fields): void {
  const spec = withTemplate(object);
  setDefaults(spec, { replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600 });
  const strategy = ensureFields(spec, "strategy");
  setDefault(strategy, "type", "RollingUpdate");
  if (textAt(strategy, "type") !== "RollingUpdate") return;
  setDefaults(ensureFields(strategy, "rollingUpdate"), { maxUnavailable: "25%", maxSurge: "25%" });
}

/** The selector is made of the template's labels, and so are the labels. */
export function defaultReplicationController(object: Fields): void {
  const spec = withTemplate(object);
  setDefault(spec, "replicas", 1);
  const labels = fieldsAt(fieldsAt(fieldsAt(spec, "template"), "metadata"), "labels") ?? {};
  if (Object.keys(labels).length === 0) return;
  if (Object.keys(fieldsAt(spec, "selector") ?? {}).length === 0) spec["selector"] = { ...labels };
  defaultLabels(object, labels);
}

/** Labels default to those of the template. */
function defaultLabels(object: Fields, labels: Fields): void {
  const metadata = ensureFields(object, "metadata");
  const isBare = Object.keys(fieldsAt(metadata, "labels") ?? {}).length === 0;
  if (isBare && Object.keys(labels).length > 0) metadata["labels"] = { ...labels };
}

export function defaultReplicaSet(object: Fields): void {
  const spec = withTemplate(object);
  setDefault(spec, "replicas", 1);
}

export function defaultStatefulSet(object: Fields): void {
  const spec = withTemplate(object);
  setDefaults(spec, { replicas: 1, podManagementPolicy: "OrderedReady", revisionHistoryLimit: 10 });
  const strategy = ensureFields(spec, "updateStrategy");
  setDefault(strategy, "type", "RollingUpdate");
  if (textAt(strategy, "type") === "RollingUpdate") {
    const rolling = ensureFields(strategy, "rollingUpdate");
    setDefault(rolling, "partition", 0);
    // Behind a feature that is off by default.
    delete rolling["maxUnavailable"];
  }
  const retention = ensureFields(spec, "persistentVolumeClaimRetentionPolicy");
  setDefaults(retention, { whenDeleted: "Retain", whenScaled: "Retain" });
  for (const claim of itemsAt(spec, "volumeClaimTemplates")) {
    Object.assign(claim, { apiVersion: "v1", kind: "PersistentVolumeClaim" });
    setDefault(ensureFields(claim, "spec"), "volumeMode", "Filesystem");
    setDefault(ensureFields(claim, "status"), "phase", "Pending");
  }
}

export function defaultDaemonSet(object: Fields): void {
  const spec = withTemplate(object);
  setDefault(spec, "revisionHistoryLimit", 10);
  const strategy = ensureFields(spec, "updateStrategy");
  setDefault(strategy, "type", "RollingUpdate");
  if (textAt(strategy, "type") !== "RollingUpdate") return;
  setDefaults(ensureFields(strategy, "rollingUpdate"), { maxUnavailable: 1, maxSurge: 0 });
}

export function defaultJob(object: Fields): void {
  const spec = withTemplate(object);
  if (spec["completions"] === undefined && spec["parallelism"] === undefined) spec["completions"] = 1;
  const isByIndex = spec["backoffLimitPerIndex"] !== undefined;
  setDefaults(spec, {
    parallelism: 1,
    backoffLimit: isByIndex ? UNLIMITED : JOB_BACKOFF_LIMIT,
    completionMode: "NonIndexed",
    suspend: false,
    podReplacementPolicy: spec["podFailurePolicy"] === undefined ? "TerminatingOrFailed" : "Failed",
  });
  defaultLabels(object, fieldsAt(fieldsAt(fieldsAt(spec, "template"), "metadata"), "labels") ?? {});
}

export function defaultCronJob(object: Fields): void {
  const spec = ensureFields(object, "spec");
  setDefaults(spec, {
    concurrencyPolicy: "Allow",
    suspend: false,
    successfulJobsHistoryLimit: 3,
    failedJobsHistoryLimit: 1,
  });
  const job = fieldsAt(fieldsAt(spec, "jobTemplate"), "spec");
  if (job !== undefined) defaultTemplate(job);
}

function withTemplate(object: Fields): Fields {
  const spec = ensureFields(object, "spec");
  defaultTemplate(spec);
  return spec;
}

/** Only a template that is there is defaulted: an absent one is an error that validation reports. */
function defaultTemplate(spec: Fields): void {
  const template = fieldsAt(spec, "template");
  if (template === undefined) return;
  defaultPodSpec(ensureFields(template, "spec"));
}
