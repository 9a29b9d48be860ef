/** The profile that the members of a run share, installed as docs/guide/parallel-network.md and docs/guide/relay.md say. */

import { VERSION } from "@fairlead/base/version.ts";
import type { AddressBlock } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import type { MemberCluster } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CROSS_CLUSTER_POLICY } from "@fairlead/fleet/api/fairlead.dev/node-agents.ts";
import { type Clusters, SYSTEM, until } from "./clusters.ts";
import { NAMESPACE } from "./manifests.ts";

const PROFILE = "e2e";
export const FLEET_DEVICE = "eth-fleet";

interface Listed<T> {
  readonly items: readonly T[];
}

interface NodeObject {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
}

interface Named {
  readonly metadata: { readonly name: string; readonly uid: string };
}

export class MeshNetwork {
  readonly #clusters: Clusters;

  constructor(clusters: Clusters) {
    this.#clusters = clusters;
  }

  /** Whether the members of this run share a profile, and agents on their nodes enforce policies. */
  get isUsed(): boolean {
    return this.#clusters.settings.mesh !== undefined;
  }

  get isParallel(): boolean {
    return this.#clusters.settings.mesh?.mode === "parallel";
  }

  /** The lab gave its node agents their rights, in `fleet-system`. */
  get hasAgents(): boolean {
    return this.isUsed && !this.#installsAgents;
  }

  get #installsAgents(): boolean {
    return this.#clusters.settings.mesh?.hasAgents === false;
  }

  /** More arguments of `fairlead join`. */
  get joinFlags(): readonly string[] {
    if (this.isParallel) return ["--parallel-profile", PROFILE];
    return this.#installsAgents ? ["--node-agents"] : [];
  }

  /** More values of the chart of a member: its agent may install those of nodes. */
  get memberValues(): readonly string[] {
    return this.#installsAgents ? ["nodes.install=true"] : [];
  }

  /** After the hub's chart, and before members join. */
  async installOnHub(): Promise<void> {
    const clusters = this.#clusters;
    if (!this.isUsed) return;
    await clusters.apply(clusters.hub, {
      apiVersion: "fairlead.dev/v1alpha1",
      kind: "ClusterMeshProfile",
      metadata: { name: PROFILE },
      spec: {
        memberSelector: {},
        network: { mode: clusters.settings.mesh?.mode },
        ...(this.#installsAgents ? { version: VERSION } : {}),
      },
    });
    if (this.#installsAgents && this.isParallel) await this.#installRelay();
  }

  async #installRelay(): Promise<void> {
    const clusters = this.#clusters;
    const node = (await clusters.find<Listed<NodeObject>>(clusters.hub, ["nodes"]))?.items[0];
    const of = (type: string): readonly string[] =>
      (node?.status.addresses ?? []).filter((it) => it.type === type).map((it) => it.address);
    const external = of("ExternalIP");
    const given = clusters.settings.mesh?.relayAddresses ?? [];
    const addresses = given.length > 0 ? given : external.length > 0 ? external : of("InternalIP");
    await clusters.chart(clusters.hub, ["install"], "fairlead-relay", [
      "relays[0].name=relay",
      `relays[0].nodeSelector.kubernetes\\.io/hostname=${node?.metadata.labels?.["kubernetes.io/hostname"]}`,
      ...addresses.map((it, index) => `relays[0].addresses[${index}]=${it}`),
    ]);
  }

  /** Waits until all members are connected, and say that policies for pods of other clusters hold. */
  async untilEnforced(): Promise<void> {
    const clusters = this.#clusters;
    const state = async (): Promise<string | undefined> =>
      (await clusters.find<{ status?: { state?: string } }>(clusters.hub, [PROFILES, PROFILE]))?.status
        ?.state;
    await until("the profile is connected", state, (it) => it === "Connected");
    // Members know agents by their DaemonSet.
    if (!this.#installsAgents) return;
    for (const member of clusters.members)
      await until(
        `${member} enforces policies`,
        async () =>
          (await clusters.find<MemberCluster>(clusters.hub, [MEMBERS, member]))?.status?.agentStatus,
        (agents) =>
          (agents ?? []).some(({ conditions }) =>
            conditions?.some((it) => it.type === CROSS_CLUSTER_POLICY && it.status === "True"),
          ),
      );
  }

  async keyEpoch(): Promise<number> {
    const profile = await this.#clusters.find<{ status?: { keyEpoch?: number } }>(this.#clusters.hub, [
      PROFILES,
      PROFILE,
    ]);
    return profile?.status?.keyEpoch ?? 0;
  }

  async rotateKeys(): Promise<void> {
    const annotation = `fairlead.dev/rotate-keys=${Date.now()}`;
    await this.#clusters.kubectl(this.#clusters.hub, [
      "annotate",
      "--overwrite",
      PROFILES,
      PROFILE,
      annotation,
    ]);
  }

  /** Fleet addresses of the pods of an app, by name of the pod. Waits until all have some. */
  async addressesOf(cluster: string, app: string): Promise<ReadonlyMap<string, readonly string[]>> {
    const clusters = this.#clusters;
    const read = async (): Promise<ReadonlyMap<string, readonly string[]>> => {
      const selector = ["-n", NAMESPACE, "pods", "-l", `app=${app}`];
      const pods = await clusters.find<Listed<Named>>(cluster, selector);
      const blocks = await clusters.find<Listed<AddressBlock>>(cluster, ["-n", SYSTEM, BLOCKS]);
      const allocations = (blocks?.items ?? []).flatMap((it) => it.status?.allocations ?? []);
      return new Map(
        (pods?.items ?? []).map(({ metadata: { name, uid } }) => {
          const found = allocations.find((it) => it.podUID === uid);
          return [name, [found?.ipv4, found?.ipv6].filter((it) => it !== undefined)];
        }),
      );
    };
    return until(`fleet addresses of ${app} in ${cluster}`, read, (it) =>
      [...it.values()].every((addresses) => addresses.length > 0),
    );
  }

  /** Waits until the agents of all nodes run, which the members install. */
  async untilAgentsRun(): Promise<void> {
    const clusters = this.#clusters;
    if (!this.#installsAgents) return;
    const read = () => clusters.find<WithConditions>(clusters.hub, [PROFILES, PROFILE]);
    await until("the agents of the nodes", read, (it) =>
      ["NodeAgentsInstalled", "Ready"].every((type) =>
        it?.status?.conditions?.some((one) => one.type === type && one.status === "True"),
      ),
    );
  }

  /** The profile goes first: nodes remove their part of the network before their agents are removed. */
  async remove(): Promise<void> {
    const clusters = this.#clusters;
    if (!this.isUsed) return;
    if ((await clusters.find(clusters.hub, ["crd", PROFILES])) !== undefined)
      await clusters.kubectl(clusters.hub, [
        "delete",
        PROFILES,
        PROFILE,
        "--ignore-not-found",
        "--timeout=60s",
      ]);
    if (!this.#installsAgents) return;
    for (const member of clusters.members)
      await until(
        `the nodes of ${member} have left the network`,
        async () => (await clusters.find<Listed<Named>>(member, ["-n", SYSTEM, "daemonsets"]))?.items ?? [],
        (it) => it.length === 0,
      );
    if (this.isParallel)
      await clusters.helm(clusters.hub, ["uninstall", "fairlead-relay", "--wait", "--ignore-not-found"]);
  }
}

interface WithConditions {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

const MEMBERS = "memberclusters.cluster.kubernetes-fleet.io";
const PROFILES = "clustermeshprofiles.fairlead.dev";
const BLOCKS = "addressblocks.fairlead.dev";
