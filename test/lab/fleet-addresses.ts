/** By which addresses the pods of a lab's clusters are reached by others. */

import { ADDRESS_BLOCKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { TestLab } from "../support/lab-fixture.ts";

/**
 * The fleet addresses that the pods of one cluster have or had, by their UIDs: in a parallel network, those by which
 * clients meet them, also in their own cluster. In a flat network, endpoints stay as they are.
 */
export class FleetAddresses implements AsyncDisposable {
  readonly #isFlat: boolean;
  readonly #ipv4 = new Map<string, string>();
  /** UIDs of pods by their own addresses: slices of imports name no pods. */
  readonly #uids = new Map<string, string>();
  /** UIDs of pods by namespace and name. */
  readonly #named = new Map<string, string>();
  readonly #stack = new AsyncDisposableStack();

  private constructor(isFlat: boolean) {
    this.#isFlat = isFlat;
  }

  /** @param onChange - Pods have got addresses. */
  static async start(lab: TestLab, member: string, onChange: () => void = () => {}): Promise<FleetAddresses> {
    const addresses = new FleetAddresses(lab.topology.spec.topology === "flat");
    if (addresses.#isFlat) return addresses;
    const client = await lab.client(member);
    const deps = systemDeps(silentLogger);
    const stop = new AbortController();
    const blocks = createInformer(client, ADDRESS_BLOCKS, { namespace: FLEET_SYSTEM_NAMESPACE }, deps);
    const pods = createInformer(client, PODS, {}, deps);
    blocks.subscribe(({ after }) => {
      const allocations = after?.status?.allocations ?? [];
      const fresh = allocations.filter((it) => !addresses.#ipv4.has(it.podUID));
      for (const it of fresh) addresses.#ipv4.set(it.podUID, it.ipv4);
      if (fresh.length > 0) onChange();
    });
    pods.subscribe(({ after }) => {
      const uid = after?.metadata.uid ?? "";
      if (after !== undefined) addresses.#named.set(keyOf(after), uid);
      const fresh = (after?.status?.podIPs ?? []).filter(({ ip }) => addresses.#uids.get(ip) !== uid);
      for (const { ip } of fresh) addresses.#uids.set(ip, uid);
      if (fresh.length > 0) onChange();
    });
    for (const it of [blocks, pods]) {
      addresses.#stack.use(it);
      it.start(stop.signal);
    }
    addresses.#stack.defer(() => stop.abort());
    await Promise.all([blocks.synced(stop.signal), pods.synced(stop.signal)]);
    return addresses;
  }

  /** With the addresses by which clients meet them; without those that none meets yet. */
  of({ addressType, endpoints }: EndpointSlice): readonly Endpoint[] {
    if (this.#isFlat) return endpoints;
    // Flows go by IPv4.
    if (addressType !== "IPv4") return [];
    return endpoints.flatMap((it) => {
      const uid = it.targetRef?.uid ?? this.#uids.get(it.addresses[0] ?? "");
      const ipv4 = this.#ipv4.get(uid ?? "");
      return ipv4 === undefined ? [] : [{ ...it, addresses: [ipv4] }];
    });
  }

  /** undefined: it has none. A pod without an interface in the fleet's network has one, too: its node translates it. */
  ofPod(namespace: string, name: string): string | undefined {
    return this.#ipv4.get(this.#named.get(objectKey(namespace, name)) ?? "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
