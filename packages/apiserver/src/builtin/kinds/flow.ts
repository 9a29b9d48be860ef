import type { ResourceDefinition } from "#registry/types.ts";
import { flowSchemaColumns, priorityLevelColumns } from "../columns/flow.ts";
import { define } from "../define.ts";
import { flowSchemaStrategy, priorityLevelStrategy } from "../flow/strategy.ts";

/** Group flowcontrol: kept and checked; this server treats all requests alike. */
export function flowResources(): readonly ResourceDefinition[] {
  return [
    define("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", {
      plural: "flowschemas",
      clusterScoped: true,
      columns: flowSchemaColumns,
      hasStatus: true,
      strategy: flowSchemaStrategy,
    }),
    define("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", {
      plural: "prioritylevelconfigurations",
      clusterScoped: true,
      columns: priorityLevelColumns,
      hasStatus: true,
      strategy: priorityLevelStrategy,
    }),
  ];
}
