import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { PolicyNode } from "../model.ts";
import { type Attribute, type AttributeReader, type Selector, selects } from "../selector.ts";
import type { SetNeed } from "./group.ts";
import { own } from "./identity.ts";

interface NodesOptions {
  readonly cluster: string;
  readonly node?: string;
}

/** The nodes of all clusters, and the endpoints of the own API server. Few, so that their sets are made again at each change. */
export class Nodes {
  readonly #options: NodesOptions;
  readonly #nodes = new Map<string, PolicyNode>();
  #apiServers: ReadonlySet<IpAddress> = new Set();
  #isDirty = false;

  constructor(options: NodesOptions) {
    this.#options = options;
  }

  upsert(node: PolicyNode): void {
    this.#nodes.set(`${node.cluster}/${node.name}`, node);
    this.#isDirty = true;
  }

  delete(cluster: string, name: string): void {
    if (this.#nodes.delete(`${cluster}/${name}`)) this.#isDirty = true;
  }

  setApiServers(addresses: readonly IpAddress[]): void {
    this.#apiServers = new Set(addresses);
    this.#isDirty = true;
  }

  /** Whether something changed since the last `take`. */
  get isDirty(): boolean {
    return this.#isDirty;
  }

  /** The addresses of all nodes. */
  take(): ReadonlySet<IpAddress> {
    this.#isDirty = false;
    return this.#addresses(() => true);
  }

  get own(): PolicyNode | undefined {
    const { cluster, node } = this.#options;
    return node === undefined ? undefined : this.#nodes.get(`${cluster}/${node}`);
  }

  /** The elements of a set of nodes; undefined if it is a set of something else. */
  elements(need: SetNeed): ReadonlySet<IpAddress> | undefined {
    switch (need.kind) {
      case "nodes":
        return this.#addresses((it) => this.#isSelected(it, need.selector, need.areRemote));
      case "known-nodes":
        return this.#addresses(() => true);
      case "host":
        return this.#addresses((it) => it === this.own);
      case "remote-node":
        return this.#addresses((it) => it !== this.own);
      case "kube-apiserver":
        return this.#apiServers;
      default:
        return undefined;
    }
  }

  #isSelected(node: PolicyNode, selector: Selector, areRemote: boolean): boolean {
    return selects(selector, nodeReader(node)) && !(areRemote && node === this.own);
  }

  #addresses(isWanted: (node: PolicyNode) => boolean): ReadonlySet<IpAddress> {
    return new Set([...this.#nodes.values()].filter(isWanted).flatMap((it) => it.addresses));
  }
}

export function nodeReader(node: PolicyNode): AttributeReader {
  return (attribute: Attribute) => {
    if (attribute === "cluster") return node.cluster;
    return attribute.startsWith("node:") ? own(node.labels, attribute.slice("node:".length)) : undefined;
  };
}
