import type { Toleration } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Taint } from "./cluster.ts";

/** The first taint that keeps a placement away. */
export function untolerated(taints: readonly Taint[], tolerations: readonly Toleration[]): Taint | undefined {
  return taints.find(
    (taint) => taint.effect === "NoSchedule" && !tolerations.some((it) => tolerates(it, taint)),
  );
}

/** As of pods: no effect is every effect, and no key, with `Exists`, every key. */
function tolerates({ key = "", operator = "Equal", value = "", effect }: Toleration, taint: Taint): boolean {
  if (effect !== undefined && (effect as string) !== "" && effect !== taint.effect) return false;
  if (operator === "Exists") return key === "" || key === taint.key;
  return key === taint.key && value === (taint.value ?? "");
}

export function formatTaint({ key, value = "", effect }: Taint): string {
  return `${key}${value === "" ? "" : `=${value}`}:${effect}`;
}
