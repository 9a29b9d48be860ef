import { cloneJson, sameJson } from "#base/json.ts";
import type { ApiObject, Strategy, WriteContext } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import { invalid, notAllowed } from "../field-errors.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  stringMapAt,
  textAt,
} from "../fields.ts";
import { validateLabels } from "../labels.ts";
import { admitPod, lacksServiceAccount, newPodStatus } from "./admission.ts";
import { defaultPod, defaultPodSpec } from "./defaults.ts";
import { qosClassOf } from "./qos.ts";
import { validatePodSpec } from "./validate.ts";

export const podStrategy: Partial<Strategy> = {
  generation: "spec",
  applyDefaults: defaultPod,
  lacksPrerequisite: lacksServiceAccount,
  prepareForCreate: (pod, context) => {
    admitPod(pod, context);
    pod["status"] = newPodStatus(qosClassOf(fieldsAt(pod, "spec")));
  },
  prepareForUpdate: (pod, old) => {
    const status = ensureFields(pod, "status");
    setDefault(status, "qosClass", textAt(fieldsAt(old, "status"), "qosClass"));
  },
  validateCreate: (pod) => validatePodSpec(fieldsAt(pod, "spec"), "spec"),
  validateUpdate: validatePodUpdate,
  gracePeriodSeconds,
  fieldSelectors: {
    "spec.nodeName": (pod) => specText(pod, "nodeName"),
    "spec.restartPolicy": (pod) => specText(pod, "restartPolicy"),
    "spec.schedulerName": (pod) => specText(pod, "schedulerName"),
    "spec.serviceAccountName": (pod) => specText(pod, "serviceAccountName"),
    "spec.hostNetwork": (pod) => String(fieldsAt(pod, "spec")?.["hostNetwork"] === true),
    "status.phase": (pod) => statusText(pod, "phase"),
    "status.podIP": (pod) => statusText(pod, "podIP"),
    "status.podIPs": (pod) => {
      const ips = itemsAt(fieldsAt(pod, "status"), "podIPs").map((it) => textAt(it, "ip"));
      return ips.join(",");
    },
    "status.nominatedNodeName": (pod) => statusText(pod, "nominatedNodeName"),
  },
};

function specText(pod: ApiObject, key: string): string {
  return textAt(fieldsAt(pod, "spec"), key);
}

function statusText(pod: ApiObject, key: string): string {
  return textAt(fieldsAt(pod, "status"), key);
}

/**
 * How long the node has to stop a pod: none where no node runs it.
 * Source: k8s.io/kubernetes, pkg/registry/core/pod, `CheckGracefulDelete`.
 */
function gracePeriodSeconds(pod: ApiObject, requested: number | undefined): number {
  const phase = statusText(pod, "phase");
  if (specText(pod, "nodeName") === "" || phase === "Succeeded" || phase === "Failed") return 0;
  const period = requested ?? numberAt(fieldsAt(pod, "spec"), "terminationGracePeriodSeconds") ?? 0;
  return period < 0 ? 1 : period;
}

const UPDATE_RULE =
  "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
  "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
  "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

function validatePodUpdate(pod: ApiObject, old: ApiObject, context: WriteContext): FieldError[] {
  const spec = fieldsAt(pod, "spec") ?? {};
  const before = fieldsAt(old, "spec") ?? {};
  if (sameJson(spec, before)) return [];
  const errors = validatePodSpec(spec, "spec");
  if (!sameJson(fixedPart(spec, context), fixedPart(before, context)))
    errors.push(notAllowed("spec", UPDATE_RULE));
  const kept = itemsAt(spec, "tolerations");
  const isMissing = itemsAt(before, "tolerations").some((it) => !kept.some((other) => sameJson(other, it)));
  if (isMissing) {
    errors.push(
      notAllowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"),
    );
  }
  const gates = gatesOf(before);
  const added = gatesOf(spec).filter((it) => !gates.includes(it));
  if (added.length > 0) {
    errors.push(
      notAllowed("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates"),
    );
  }
  const deadline = numberAt(spec, "activeDeadlineSeconds");
  const oldDeadline = numberAt(before, "activeDeadlineSeconds");
  if (oldDeadline !== undefined && (deadline === undefined || deadline > oldDeadline)) {
    const detail = `must be less than or equal to previous value`;
    errors.push(invalid("spec.activeDeadlineSeconds", deadline, detail));
  }
  return errors;
}

function gatesOf(spec: Fields): readonly string[] {
  return itemsAt(spec, "schedulingGates").map((it) => textAt(it, "name"));
}

/** What an update leaves alone: everything but images and a few fields, and the node where the pod is being bound. */
function fixedPart(spec: Fields, { subresource }: WriteContext): Fields {
  const fixed = cloneJson(spec);
  for (const list of ["containers", "initContainers"]) {
    for (const container of itemsAt(fixed, list)) delete container["image"];
  }
  delete fixed["activeDeadlineSeconds"];
  delete fixed["tolerations"];
  if ((numberAt(spec, "terminationGracePeriodSeconds") ?? 0) === 1)
    delete fixed["terminationGracePeriodSeconds"];
  if (subresource === "binding") delete fixed["nodeName"];
  if (subresource === "ephemeralcontainers") delete fixed["ephemeralContainers"];
  delete fixed["schedulingGates"];
  return fixed;
}

export const podTemplateStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => defaultPodSpec(ensureFields(ensureFields(object, "template"), "spec")),
  validateCreate: (object) => validatePodTemplate(fieldsAt(object, "template"), "template"),
  validateUpdate: (object) => validatePodTemplate(fieldsAt(object, "template"), "template"),
};

export function validatePodTemplate(template: Fields | undefined, path: string): FieldError[] {
  const labels = stringMapAt(fieldsAt(template, "metadata"), "labels");
  return [
    ...validateLabels(labels, `${path}.metadata.labels`),
    ...validatePodSpec(fieldsAt(template, "spec"), `${path}.spec`),
  ];
}
