import { isReportChanged, nodeAgentsOn, type NodeAgentsView } from "#domain/node-agents.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Source } from "@fairlead/kube/types.ts";
import type { Session } from "./session.ts";

/** Where agents of nodes run in this cluster, for all that depends on it. */
export function nodeAgentsOf({ ranges, deps }: Pick<Session, "ranges" | "deps">): NodeAgentsView {
  return nodeAgentsOn(ranges?.nodes.store.list() ?? [], deps.clock.now());
}

export function watchingNodeAgents(
  { ranges }: Pick<Session, "ranges">,
  keys: () => readonly ObjectKey[],
): Source[] {
  if (ranges === undefined) return [];
  return [
    watchingChanges(ranges.nodes, ({ before, after }) => (isReportChanged(before, after) ? keys() : [])),
  ];
}
