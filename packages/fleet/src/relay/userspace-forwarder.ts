import type { Clock } from "@fairlead/base/clock.ts";
import type { NftCounter } from "@fairlead/os/nft/driver.ts";
import type { Arrival, Forwarder } from "./forwarder.ts";
import { burstOf } from "./kernel-table.ts";
import { legId, type Registration, type RegistrationTable } from "./registration-table.ts";

export interface UserspaceOptions {
  readonly table: Pick<RegistrationTable, "routeOf">;
  /** Sends from the port of gateway `from`, at the address `target.via`, to `target.source`. */
  readonly send: (payload: Uint8Array, from: number, target: Registration) => void;
  /** Most that one gateway may send to another. Unit: bytes per second. Undefined: unlimited. */
  readonly legLimit: number | undefined;
  readonly clock: Clock;
}

/** Of headers of IP and UDP, so that it counts as the kernel does. IPv6 has 20 more. */
const HEADER_BYTES = 28;

/** Forwards by the relay's own sockets: where the kernel cannot, and between gateways of different address families. */
export function createUserspaceForwarder(options: UserspaceOptions): Forwarder {
  const { table, send, legLimit, clock } = options;
  const counters = new Map<number, { packets: number; bytes: number }>();
  const buckets = new Map<number, { level: number; atMs: number }>();

  function isWithinLimit(id: number, bytes: number): boolean {
    if (legLimit === undefined) return true;
    const burst = burstOf(legLimit);
    const now = clock.monotonic();
    const before = buckets.get(id) ?? { level: burst, atMs: now };
    const level = Math.min(burst, before.level + ((now - before.atMs) / 1000) * legLimit);
    const isWithin = level >= bytes;
    buckets.set(id, { level: isWithin ? level - bytes : level, atMs: now });
    return isWithin;
  }

  return {
    adopt: async () => [],
    async change(changes) {
      for (const { before, after } of changes) {
        if (before === undefined || after !== undefined) continue;
        counters.delete(legId(before));
        buckets.delete(legId(before));
      }
    },
    receive(payload: Uint8Array, { source, to }: Arrival) {
      const route = table.routeOf(to, source);
      if (route === undefined) return;
      const id = legId(route.leg);
      const bytes = payload.length + HEADER_BYTES;
      if (!isWithinLimit(id, bytes)) return;
      const counter = counters.get(id) ?? { packets: 0, bytes: 0 };
      counters.set(id, { packets: counter.packets + 1, bytes: counter.bytes + bytes });
      send(payload, route.leg.from, route.target);
    },
    traffic: async (): Promise<ReadonlyMap<number, NftCounter>> => new Map(counters),
    async [Symbol.asyncDispose]() {},
  };
}
