import { type ExportTraffic, readTraffic } from "#api/fairlead.dev/model/traffic.ts";
import { PORTS_ANNOTATION, TRAFFIC, TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { byText, nearest } from "#base/text.ts";
import type { Condition, KubeObject } from "#api/meta/types.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** What the annotations of a service's exports ask for, and what their owners are told of that. Pure. */

type NewCondition = Omit<Condition, "lastTransitionTime">;

export interface ExportTrafficView {
  /** The exports whose doors are open. */
  readonly mcs: KubeObject | undefined;
  readonly fleet: KubeObject | undefined;
  /** What the hub has, with its verdict. */
  readonly current: InternalServiceExport | undefined;
}

export interface ExportTrafficPlan {
  readonly traffic: ExportTraffic;
  /** For every export of the service; none where nobody asks for anything and nothing is wrong. */
  readonly conditions: readonly NewCondition[];
}

export function planTraffic({ mcs, fleet, current }: ExportTrafficView): ExportTrafficPlan {
  const annotations = { mcs: mcs?.metadata.annotations, fleet: fleet?.metadata.annotations };
  const { traffic, problems } = readTraffic(annotations, current?.spec);
  const verdict = current?.status?.conditions?.find((it) => it.type === TRAFFIC);
  const told = verdict?.status === "False" ? [{ reason: verdict.reason, message: verdict.message }] : [];
  const wrong = [
    ...(problems.length === 0 ? [] : [{ reason: "InvalidAnnotation", message: problems.join("; ") }]),
    ...unknownAnnotations([annotations.fleet, annotations.mcs]),
    ...told,
  ];
  if (wrong.length > 0) return { traffic, conditions: [refused(wrong)] };
  const said = describe(traffic);
  if (said.length === 0) return { traffic, conditions: [] };
  return {
    traffic,
    conditions: [{ type: TRAFFIC, status: "True", reason: "Applied", message: said.join("; ") }],
  };
}

const PREFIX = "fairlead.dev/";
const KNOWN: readonly string[] = [...Object.values(TRAFFIC_ANNOTATIONS), PORTS_ANNOTATION];
/** What is told of at most, of all that somebody writes. */
const LONGEST_LIST = 5;

/** A misspelled annotation would do nothing without a word. */
function unknownAnnotations(
  exports: readonly (Readonly<Record<string, string>> | undefined)[],
): readonly { readonly reason: string; readonly message: string }[] {
  const keys = new Set(exports.flatMap((it) => Object.keys(it ?? {})));
  const unknown = [...keys].filter((it) => it.startsWith(PREFIX) && !KNOWN.includes(it)).toSorted(byText);
  if (unknown.length === 0) return [];
  const told = unknown.slice(0, LONGEST_LIST).map((it) => {
    const like = nearest(it, KNOWN);
    return `${it} means nothing on a ServiceExport${like === undefined ? "" : `, did you mean ${like}?`}`;
  });
  const more = unknown.length > told.length ? [`and ${unknown.length - told.length} more`] : [];
  return [{ reason: "UnknownAnnotation", message: [...told, ...more].join("; ") }];
}

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
