import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";

/** Only these two count. Source: pkg/apis/core/v1/helper/qos. */
const COUNTED = ["cpu", "memory"] as const;

/** The QoS class of a pod, by its requests and limits. Pure. */
export function qosClass(pod: Pod): "Guaranteed" | "Burstable" | "BestEffort" {
  const containers: readonly Container[] = [
    ...(pod.spec?.initContainers ?? []),
    ...(pod.spec?.containers ?? []),
  ];
  const resources = containers.map((it) => it.resources ?? {});
  const isGuaranteed = resources.every(({ limits, requests }) =>
    COUNTED.every((key) => limits?.[key] !== undefined && (requests?.[key] ?? limits[key]) === limits[key]),
  );
  if (isGuaranteed) return "Guaranteed";
  const hasAny = resources.some((it) => {
    const all = { ...it.limits, ...it.requests };
    return COUNTED.some((key) => all[key] !== undefined && all[key] !== "0");
  });
  return hasAny ? "Burstable" : "BestEffort";
}
