/** Packets of a pod of another cluster while it is not known; in the lab of `policy-packets.test.ts`. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CiliumNetworkPolicy } from "@fairlead/fleet/api/cilium.io/v2/types.ts";
import { IDENTITY_SLICES, type IdentitySlice } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { type MemberNetwork, MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type PolicyWorld, silence } from "./policy-world.ts";

/** @param world - Has the pod x/a, which y/a and far:x/a of another cluster reach without policies. */
export function describeOtherCluster(world: () => PolicyWorld): void {
  describe("with a rule that denies some pods of another cluster", () => {
    const FAR = objectKey(FLEET_SYSTEM_NAMESPACE, "far.x.a");
    const deny = (labels: Readonly<Record<string, string>>) => ({ fromEndpoints: [{ matchLabels: labels }] });
    const notEvil: CiliumNetworkPolicy = {
      metadata: { name: "not-evil" },
      spec: {
        endpointSelector: { matchLabels: { pod: "a" } },
        ingress: [{ fromEntities: ["all"] }],
        ingressDeny: [
          deny({ "io.cilium.k8s.policy.cluster": "far", role: "evil" }),
          deny({ "io.kubernetes.pod.namespace": "y" }),
        ],
      },
    };
    let slice: IdentitySlice;
    const networks = async (podNetworks: readonly MemberNetwork[] | null) => {
      const spec = { podNetworks: podNetworks as MemberNetwork[] };
      await world().client.mergePatch(MESH_NETWORKS, objectKey(FLEET_SYSTEM_NAMESPACE, "flat"), { spec });
      await world().settled();
    };
    const forget = async () => {
      await world().client.delete(IDENTITY_SLICES, FAR);
      await world().settled();
    };
    const say = async (spec: Partial<IdentitySlice["spec"]>) => {
      const { cluster, publishedAt } = slice.spec;
      await world().client.create(IDENTITY_SLICES, {
        metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: "far.x.a" },
        spec: { cluster, publishedAt, type: "Pods", ...spec },
      });
      await world().settled();
    };
    const sayRole = (role: string) => say({ namespace: "x", labels: { role }, pods: slice.spec.pods ?? [] });
    const isReached = (): Promise<boolean> => world().asks("far:x/a", "x/a", { port: 80 });

    beforeAll(async () => {
      slice = await world().client.get(IDENTITY_SLICES, FAR);
      await world().setPolicies([]);
      await networks([{ cluster: "far", podCIDRs: ["10.244.9.0/24", "fd00:244:0:9::/64"] }]);
      await forget();
    });
    afterAll(async () => {
      await world().setClusterwidePolicies([]);
      await forget();
      const { metadata, spec } = slice;
      await world().client.create(IDENTITY_SLICES, {
        metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: metadata.name },
        spec,
      });
      await networks(null);
    });

    it("takes no new connection of a pod there until it is known, and keeps an established one until it is denied", async () => {
      const open = async (from: string) => {
        const { peer } = world().pod(from);
        const { handle } = await peer.ask("open", { host: world().pod("x/a").peer.v4, port: 80 });
        return async () => (await Promise.race([peer.ask("say", { handle }), silence()])) !== undefined;
      };
      const [far, other] = [await open("far:x/a"), await open("y/a")];
      await world().setClusterwidePolicies([notEvil]);
      // Flows have been compared with the policy.
      await expect.poll(other, { interval: 300 }).toBe(false);
      expect([await far(), await isReached()]).toEqual([true, false]);
      await sayRole("good");
      expect([await far(), await isReached()]).toEqual([true, true]);
      // An evil pod at the same address, from its start until it is known, and after it.
      await forget();
      const state = { isOver: false };
      const tries = (async () => {
        const answers: boolean[] = [];
        while (!state.isOver) answers.push(await isReached());
        return answers;
      })();
      expect(await isReached()).toBe(false);
      await sayRole("evil");
      expect(await isReached()).toBe(false);
      state.isOver = true;
      expect(new Set(await tries)).toEqual(new Set([false]));
      await expect.poll(far, { interval: 300 }).toBe(false);
    });

    it("takes connections of an address there of which its cluster says that no selector selects it", async () => {
      await forget();
      expect(await isReached()).toBe(false);
      const { v4, v6 } = world().pod("far:x/a").peer;
      await say({ type: "Addresses", addresses: [v4, v6] });
      expect([await isReached(), await world().asks("far:x/a", "x/a", { port: 80, family: 6 })]).toEqual([
        true,
        true,
      ]);
    });
  });
}
