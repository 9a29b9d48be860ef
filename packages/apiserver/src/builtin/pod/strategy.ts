import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  textAt,
} from "@fairlead/base/fields.ts";
import {
  addTolerations,
  admitPod,
  gatedCondition,
  lacksServiceAccount,
  newPodStatus,
  type PodAdmission,
} from "./admission.ts";
import { defaultPod, defaultPodSpec } from "./defaults.ts";
import { qosClassOf } from "@fairlead/kube/quota/qos.ts";
import { validatePodUpdate } from "./update.ts";
import { validateNewPod, validatePodTemplate } from "./validate.ts";

/** @param isEnabled - Which of the admission plugins that belong to pods are on. */
export function podStrategy(isEnabled: PodAdmission): Partial<Strategy> {
  return {
    ...POD_STRATEGY,
    ...(isEnabled("ServiceAccount") ? { lacksPrerequisite: lacksServiceAccount } : {}),
    prepareForCreate: (pod, context) => {
      admitPod(pod, context, isEnabled);
      const spec = fieldsAt(pod, "spec");
      pod["status"] = newPodStatus(qosClassOf(spec), gatedCondition(spec, context.nowMs));
    },
    prepareForUpdate: (pod, old) => {
      if (isEnabled("DefaultTolerationSeconds")) addTolerations(ensureFields(pod, "spec"));
      keepPriority(ensureFields(pod, "spec"), fieldsAt(old, "spec") ?? {});
      const status = ensureFields(pod, "status");
      setDefault(status, "qosClass", textAt(fieldsAt(old, "status"), "qosClass"));
    },
  };
}

const POD_STRATEGY: Partial<Strategy> = {
  generation: "spec",
  keptByStatus: ["ownerReferences"],
  applyDefaults: defaultPod,
  validateCreate: validateNewPod,
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

/** Clients that rebuild the spec do not know what admission added to it. */
function keepPriority(spec: Fields, before: Fields): void {
  for (const field of ["priority", "preemptionPolicy"]) spec[field] ??= before[field];
}

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

export const podTemplateStrategy: Partial<Strategy> = {
  applyDefaults: (object) => defaultPodSpec(ensureFields(ensureFields(object, "template"), "spec")),
  validateCreate: (object) => validatePodTemplate(fieldsAt(object, "template"), "template"),
  validateUpdate: (object) => validatePodTemplate(fieldsAt(object, "template"), "template"),
};
