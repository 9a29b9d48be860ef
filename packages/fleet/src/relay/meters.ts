import type { Metrics } from "@fairlead/base/metrics.ts";
import type { NftCounter } from "@fairlead/os/nft/driver.ts";
import { type ControlResult, type Leg, legOf, type RegistrationTable } from "./registration-table.ts";

export interface RelayMeters extends Disposable {
  control(result: ControlResult): void;
  /** What has been forwarded, by number of the leg. Returns those with traffic since the last call. */
  traffic(counters: ReadonlyMap<number, NftCounter>): readonly Leg[];
}

/** Metrics of a relay. */
export function createRelayMeters(
  metrics: Metrics,
  of: { readonly table: RegistrationTable; readonly nameOf: (index: number) => string },
): RelayMeters {
  const registrations = metrics.gauge({
    name: "fairlead_relay_registrations",
    help: "Registrations of gateways: one for each other gateway and epoch of keys.",
  });
  const control = metrics.counter({
    name: "fairlead_relay_control_datagrams_total",
    help: "Control datagrams that reached the relay, by result.",
    labels: ["result"],
  });
  const bytes = metrics.counter({
    name: "fairlead_relay_forwarded_bytes_total",
    help: "Bytes forwarded from one gateway to another, with headers of IP.",
    labels: ["from", "to"],
  });
  const packets = metrics.counter({
    name: "fairlead_relay_forwarded_packets_total",
    help: "Datagrams forwarded from one gateway to another.",
    labels: ["from", "to"],
  });
  for (const result of ["registered", "renewed", "challenged", "refused"]) control.add({ result }, 0);
  let last: ReadonlyMap<number, NftCounter> = new Map();
  const update = metrics.onRender(() => registrations.set({}, of.table.size));
  return {
    control: (result) => control.add({ result }),
    traffic(counters) {
      const active: Leg[] = [];
      for (const [id, now] of counters) {
        const leg = legOf(id);
        if (leg === undefined) continue;
        const labels = { from: of.nameOf(leg.from), to: of.nameOf(leg.to) };
        const before = last.get(id);
        // A smaller count has started from 0 again.
        const base = before === undefined || before.packets > now.packets ? undefined : before;
        if (now.packets > (base?.packets ?? 0)) active.push(leg);
        bytes.add(labels, now.bytes - (base?.bytes ?? 0));
        packets.add(labels, now.packets - (base?.packets ?? 0));
      }
      last = counters;
      return active;
    },
    [Symbol.dispose]: () => update[Symbol.dispose](),
  };
}
