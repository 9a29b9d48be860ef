import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Change } from "@fairlead/kube/types.ts";

/** The fleet addresses of the cluster's pods, as the blocks of its nodes have them. */
export class PodFleetAddresses {
  /** By UID of the pod. */
  readonly #addresses = new Map<string, readonly string[]>();
  /** UIDs by address. */
  readonly #owners = new Map<string, string>();

  of(uid: string): readonly string[] | undefined {
    return this.#addresses.get(uid);
  }

  /** The UID of the pod that has the address. */
  ownerOf(address: string): string | undefined {
    return this.#owners.get(address);
  }

  /** @returns The UIDs of the pods that get or lose addresses. */
  change({ before, after }: Change<AddressBlock>): readonly string[] {
    const [was, is] = [inUse(before), inUse(after)];
    const changed = [...new Set([...was.keys(), ...is.keys()])].filter(
      (uid) => !sameJson(is.get(uid), this.#addresses.get(uid)),
    );
    for (const uid of changed) this.#set(uid, is.get(uid));
    return changed;
  }

  #set(uid: string, addresses: readonly string[] | undefined): void {
    // Another pod may have them by now.
    for (const it of this.#addresses.get(uid) ?? [])
      if (this.#owners.get(it) === uid) this.#owners.delete(it);
    for (const it of addresses ?? []) this.#owners.set(it, uid);
    if (addresses === undefined) this.#addresses.delete(uid);
    else this.#addresses.set(uid, addresses);
  }
}

/** By UID of the pod. */
function inUse(block: AddressBlock | undefined): ReadonlyMap<string, readonly string[]> {
  const all = (block?.status?.allocations ?? []).filter((it) => it.releasedAt === undefined);
  return new Map(all.map((it) => [it.podUID, [it.ipv4, it.ipv6]]));
}
