import { defined } from "@fairlead/base/defined.ts";
import type { MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NODE_RANGES, POD_RANGES, SERVICE_RANGES } from "#api/fairlead.dev/names.ts";
import { FACTS, reportedFacts } from "#domain/cluster-facts.ts";
import { boundedProperties } from "#domain/cluster-properties.ts";
import { reportedRanges } from "#domain/ranges.ts";

/** KubeFleet's agents report 200. */
const MAX_NAMESPACES = 1000;
const OWN_PROPERTIES: ReadonlySet<string> = new Set([...FACTS, POD_RANGES, SERVICE_RANGES, NODE_RANGES]);

/** Of what a member reports about its cluster, what the hub keeps: no right comes of it. */
export function reportedStatus(
  reported: MemberClusterStatus,
): Pick<MemberClusterStatus, "properties" | "resourceUsage" | "namespaces"> {
  const { resourceUsage, namespaces } = reported;
  const others = Object.entries(reported.properties ?? {}).filter(([name]) => !OWN_PROPERTIES.has(name));
  const properties = {
    ...boundedProperties(Object.fromEntries(others)),
    // In our own writing: what joins later is checked against them.
    ...reportedRanges(reported.properties).properties,
    ...reportedFacts(reported.properties),
  };
  return {
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    ...defined({ resourceUsage }),
    ...(namespaces === undefined
      ? {}
      : { namespaces: Object.fromEntries(Object.entries(namespaces).slice(0, MAX_NAMESPACES)) }),
  };
}
