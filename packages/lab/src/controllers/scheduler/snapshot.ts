import type { Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isTerminal } from "../pods.ts";
import { type Amounts, amountsOf, requestsOf, sum } from "./resources.ts";

/** What a scheduler sees of a node: kept up to date within one pass as pods are sent there. */
export class NodeView {
  readonly node: Node;
  readonly allocatable: Amounts;
  readonly pods: Pod[] = [];
  requested: Amounts = new Map();

  constructor(node: Node, pods: Iterable<Pod>) {
    this.node = node;
    this.allocatable = amountsOf(node.status?.allocatable);
    for (const pod of pods) this.add(pod);
  }

  get name(): string {
    return this.node.metadata.name;
  }

  add(pod: Pod): void {
    if (isTerminal(pod)) return;
    this.pods.push(pod);
    this.requested = sum(this.requested, requestsOf(pod));
  }

  labelOf(key: string): string | undefined {
    return this.node.metadata.labels?.[key];
  }
}

/** All that one decision looks at. */
export interface ClusterView {
  readonly nodes: readonly NodeView[];
  readonly labelsOfNamespace: (name: string) => Readonly<Record<string, string>>;
}
