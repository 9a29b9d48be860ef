/** By which addresses the pods of a lab's clusters are reached by others. */

import { ADDRESS_BLOCKS, type AddressBlock } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import type { TestLab } from "../support/lab-fixture.ts";

/**
 * The fleet addresses that the pods of one cluster have or had, by their UIDs: in a parallel network, those by which
 * clients meet them, also in their own cluster. In a flat network, endpoints stay as they are.
 */
export class FleetAddresses implements AsyncDisposable {
  readonly #ipv4 = new Map<string, string>();
  readonly #informer: Informer<AddressBlock> | undefined;
  readonly #stop = new AbortController();

  private constructor(informer: Informer<AddressBlock> | undefined) {
    this.#informer = informer;
  }

  /** @param onChange - Pods have got addresses. */
  static async start(lab: TestLab, member: string, onChange: () => void = () => {}): Promise<FleetAddresses> {
    if (lab.topology.spec.topology === "flat") return new FleetAddresses(undefined);
    const options = { namespace: FLEET_SYSTEM_NAMESPACE };
    const client = await lab.client(member);
    const informer = createInformer(client, ADDRESS_BLOCKS, options, systemDeps(silentLogger));
    const addresses = new FleetAddresses(informer);
    informer.subscribe(({ after }) => {
      const allocations = after?.status?.allocations ?? [];
      const fresh = allocations.filter((it) => !addresses.#ipv4.has(it.podUID));
      for (const it of fresh) addresses.#ipv4.set(it.podUID, it.ipv4);
      if (fresh.length > 0) onChange();
    });
    informer.start(addresses.#stop.signal);
    await informer.synced(addresses.#stop.signal);
    return addresses;
  }

  /** With the addresses by which clients meet them; without those that none meets yet. */
  of({ addressType, endpoints }: EndpointSlice): readonly Endpoint[] {
    if (this.#informer === undefined) return endpoints;
    // Flows go by IPv4.
    if (addressType !== "IPv4") return [];
    return endpoints.flatMap((it) => {
      const ipv4 = this.#ipv4.get(it.targetRef?.uid ?? "");
      return ipv4 === undefined ? [] : [{ ...it, addresses: [ipv4] }];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#informer?.[Symbol.asyncDispose]();
  }
}
