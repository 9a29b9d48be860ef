import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftCounter, NftDriver } from "@fairlead/os/nft/driver.ts";
import type { Arrival, Forwarder } from "./forwarder.ts";
import {
  type KernelRegistration,
  registrationOps,
  registrationsIn,
  relayTableName,
  renderRelayTable,
  TRAFFIC_SET,
} from "./kernel-table.ts";
import { VIA_TLS } from "./tls-server.ts";
import { legId, type Registration, type RegistrationChange } from "./registration-table.ts";

export interface KernelForwarderOptions {
  readonly nft: NftDriver;
  readonly basePort: number;
  readonly legLimit: number | undefined;
  /** Of packets that this machine forwards. */
  readonly families: readonly AddressFamily[];
  readonly tlsPort: number | undefined;
  /** For datagrams that the kernel does not forward. */
  readonly userspace: Forwarder;
  /** The address that datagrams to a gateway leave from; undefined if there is no route. */
  readonly localAddress: (registration: Registration) => Promise<string | undefined>;
  /** The addresses that the relay listens on. */
  readonly listen: readonly string[];
}

/**
 * Forwards by nftables. The table stays in the kernel when the relay ends, and forwards on; the next relay adopts it.
 */
export function createKernelForwarder(options: KernelForwarderOptions): Forwarder {
  const { nft, basePort, userspace, localAddress, listen } = options;
  const name = relayTableName(basePort);
  /** What the kernel is to have, by leg. */
  const desired = new Map<number, KernelRegistration>();
  let isSynced = false;

  async function syncWhole(signal: AbortSignal): Promise<void> {
    const wanted = renderRelayTable(options, desired.values());
    await nft.apply(name, diffTable(await nft.read(name, signal), wanted), signal);
  }

  /** Notes what is wanted, and returns the steps to it. */
  async function note({ before, after }: RegistrationChange): Promise<ReturnType<typeof registrationOps>> {
    const of = after ?? before;
    if (of === undefined) return [];
    const id = legId(of);
    const old = desired.get(id);
    // Datagrams for a connection are for the relay itself to send.
    const local = after === undefined || after.via === VIA_TLS ? undefined : await localAddress(after);
    const next = after === undefined || local === undefined ? undefined : { ...after, local };
    if (next === undefined) desired.delete(id);
    else desired.set(id, next);
    return registrationOps(old, next, basePort);
  }

  function viaOf({ local, source }: Omit<KernelRegistration, "via">): string | undefined {
    return listen.includes(local)
      ? local
      : listen.find((it) => it === (source.address.includes(":") ? "::" : "0.0.0.0"));
  }

  return {
    async adopt(signal) {
      for (const it of registrationsIn(await nft.read(name, signal), basePort)) {
        const via = viaOf(it);
        if (via !== undefined) desired.set(legId(it), { ...it, via });
      }
      await syncWhole(signal);
      isSynced = true;
      return [...desired.values()];
    },
    async change(changes, signal) {
      await userspace.change(changes, signal);
      const ops = [];
      for (const change of changes) ops.push(...(await note(change)));
      const wasSynced = isSynced;
      isSynced = false;
      if (wasSynced) await nft.apply(name, ops, signal);
      else await syncWhole(signal);
      isSynced = true;
    },
    receive(payload: Uint8Array, at: Arrival) {
      userspace.receive(payload, at);
    },
    async traffic(signal) {
      const own = await userspace.traffic(signal);
      const sum = new Map<number, NftCounter>(own);
      for (const [mark, { packets, bytes }] of await nft.readCounters(name, TRAFFIC_SET, signal)) {
        const before = sum.get(Number(mark)) ?? { packets: 0, bytes: 0 };
        sum.set(Number(mark), { packets: before.packets + packets, bytes: before.bytes + bytes });
      }
      return sum;
    },
    async [Symbol.asyncDispose]() {
      await userspace[Symbol.asyncDispose]();
      nft[Symbol.dispose]();
    },
  };
}
