/** What the suite places from the hub on members, and how it looks there. */

import { type Clusters, until } from "./clusters.ts";
import { KINDS } from "./manifests.ts";

/** Namespaces on the hub, each with a placement of its name. */
export const STAGED = "fairlead-e2e-staged";
export const WEB = "fairlead-e2e-web";
export const STORE = "fairlead-e2e-store";
export const PLACED_NAMESPACES = [STAGED, WEB, STORE] as const;

/** On MemberClusters: the stage of a member in runs of the suite. */
export const STAGE_LABEL = "fairlead-e2e-stage";
export const STRATEGY = "fairlead-e2e";
export const API_VERSION = "placement.kubernetes-fleet.io/v1";
export const RUNS = "clusterstagedupdateruns.placement.kubernetes-fleet.io";
const STRATEGIES = "clusterstagedupdatestrategies.placement.kubernetes-fleet.io";
export const MEMBERS = "memberclusters.cluster.kubernetes-fleet.io";

interface Condition {
  readonly type: string;
  readonly status: string;
}

interface Placed {
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly placementStatuses?: readonly {
      readonly clusterName?: string;
      readonly conditions?: readonly Condition[];
    }[];
  };
}

export class Placements {
  readonly #clusters: Clusters;

  constructor(clusters: Clusters) {
    this.#clusters = clusters;
  }

  /** A namespace with everything in it, on members by name. */
  async place(namespace: string, members: readonly string[], strategy: object = {}): Promise<void> {
    await this.#clusters.apply(this.#clusters.hub, {
      apiVersion: API_VERSION,
      kind: "ClusterResourcePlacement",
      metadata: { name: namespace },
      spec: {
        resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: namespace }],
        policy: { placementType: "PickFixed", clusterNames: members },
        strategy,
      },
    });
  }

  /** Waits until a placement is done on each of these members, and what it placed is available. */
  async untilAvailable(name: string, members: readonly string[]): Promise<void> {
    await until(
      `${name} is available on ${members.join(" and ")}`,
      () => this.#clusters.find<Placed>(this.#clusters.hub, [KINDS.placement, name]),
      (it) =>
        isAvailable(it?.status?.conditions) &&
        members.every((member) =>
          it?.status?.placementStatuses?.some(
            ({ clusterName, conditions }) => clusterName === member && isAvailable(conditions),
          ),
        ),
    );
  }

  /** Deletes placements and their namespaces on the hub, and waits until both are gone from everywhere. */
  async remove(names: readonly string[] = PLACED_NAMESPACES): Promise<void> {
    const clusters = this.#clusters;
    const gone = ["--ignore-not-found", "--timeout=120s"];
    await clusters.kubectl(clusters.hub, ["delete", RUNS, "--all", ...gone]);
    await clusters.kubectl(clusters.hub, ["delete", STRATEGIES, STRATEGY, ...gone]);
    await clusters.kubectl(clusters.hub, ["delete", KINDS.placement, ...names, ...gone]);
    for (const member of clusters.members.filter((it) => it !== clusters.hub))
      await until(
        `${member} has nothing of ${names.join()}`,
        () => clusters.kubectl(member, ["get", "namespaces", ...names, "--ignore-not-found", "-o", "name"]),
        (it) => it.trim() === "",
      );
    // The hub makes a namespace again while a member exports from it.
    await clusters.kubectl(clusters.hub, ["delete", "namespace", ...names, ...gone]);
  }

  /** What a workload of a member answers to itself, by a Service or a pod's name. */
  async answer(member: string, namespace: string, workload: string, host: string): Promise<string> {
    const script = `fetch("http://${host}/").then((it) => it.json()).then((it) => console.log(it.cluster))`;
    const exec = ["-n", namespace, "exec", workload, "--", "node", "-e", script];
    return (await this.#clusters.kubectl(member, exec)).trim();
  }
}

function isAvailable(conditions: readonly Condition[] | undefined): boolean {
  return conditions?.some((it) => it.type.endsWith("Available") && it.status === "True") === true;
}
