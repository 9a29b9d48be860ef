import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { type ExportTraffic, readTraffic } from "#domain/traffic.ts";
import { unknownAnnotations } from "#domain/unknown-annotations.ts";
import { PORTS_ANNOTATION, TRAFFIC, TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** Computes the traffic settings in the annotations of a service's exports, and the conditions that report them. Pure. */

export interface ExportTrafficView {
  /** The valid exports. */
  readonly mcs: KubeObject | undefined;
  readonly fleet: KubeObject | undefined;
  /** The export on the hub, with the condition that the hub wrote. */
  readonly current: InternalServiceExport | undefined;
}

export interface ExportTrafficPlan {
  readonly traffic: ExportTraffic;
  /** For every export of the service; empty if no settings are given and nothing is wrong. */
  readonly conditions: readonly NewCondition[];
}

export function planTraffic({ mcs, fleet, current }: ExportTrafficView): ExportTrafficPlan {
  const annotations = { mcs: mcs?.metadata.annotations, fleet: fleet?.metadata.annotations };
  const { traffic, problems } = readTraffic(annotations, current?.spec);
  const condition = current?.status?.conditions?.find((it) => it.type === TRAFFIC);
  const reported =
    condition?.status === "False" ? [{ reason: condition.reason, message: condition.message }] : [];
  const wrong = [
    ...(problems.length === 0 ? [] : [{ reason: "InvalidAnnotation", message: problems.join("; ") }]),
    ...unknownAnnotations(Object.keys({ ...annotations.fleet, ...annotations.mcs }), KNOWN, "ServiceExport"),
    ...reported,
  ];
  if (wrong.length > 0) return { traffic, conditions: [refused(wrong)] };
  const said = describe(traffic);
  if (said.length === 0) return { traffic, conditions: [] };
  return {
    traffic,
    conditions: [{ type: TRAFFIC, status: "True", reason: "Applied", message: said.join("; ") }],
  };
}

const KNOWN: readonly string[] = [...Object.values(TRAFFIC_ANNOTATIONS), PORTS_ANNOTATION];

function refused(wrong: readonly { readonly reason: string; readonly message: string }[]): NewCondition {
  return {
    type: TRAFFIC,
    status: "False",
    reason: wrong.map((it) => it.reason).join(","),
    message: wrong.map((it) => it.message).join("; "),
  };
}

function describe({ weight, priority, affinity, exportTo }: ExportTraffic): string[] {
  return [
    ...(weight === undefined ? [] : [describeWeight(weight)]),
    ...(priority === undefined
      ? []
      : [`priority ${priority}: serves while no cluster with a lower number can`]),
    ...(affinity === undefined ? [] : [`affinity ${affinity}`]),
    ...(exportTo === undefined ? [] : [`exported to ${exportTo.join(", ") || "no other cluster"}`]),
  ];
}

function describeWeight(weight: number): string {
  return weight === 0
    ? "weight 0: no new requests are sent here"
    : `weight ${weight}: counts in DNS answers of headless services and for traffic managers; a cluster's own service proxy shares out evenly`;
}
