import type { ResourceDefinition, Strategy } from "../../registry/types.ts";
import { flowSchemaColumns, priorityLevelColumns } from "../columns/flow.ts";
import { define } from "../define.ts";
import { flowSchemaStrategy, priorityLevelStrategy } from "../flow/strategy.ts";

const unhurried: Partial<Strategy> = { allowUnconditionalUpdate: false };

/** Group flowcontrol: kept and checked; this server treats all requests alike. */
export function flowResources(): readonly ResourceDefinition[] {
  return [
    define("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", {
      plural: "flowschemas",
      clusterScoped: true,
      columns: flowSchemaColumns,
      hasStatus: true,
      strategy: { ...unhurried, ...flowSchemaStrategy },
    }),
    define("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", {
      plural: "prioritylevelconfigurations",
      clusterScoped: true,
      columns: priorityLevelColumns,
      hasStatus: true,
      strategy: { ...unhurried, ...priorityLevelStrategy },
    }),
  ];
}
