import { expect, it } from "vitest";
import type { TrafficTarget } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/traffic-route.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { TrafficName, TrafficProvider } from "@fairlead/fleet/hub/traffic-manager/provider.ts";

/** A provider, and the eyes and hands of everybody else. */
export interface ProviderWorld {
  readonly provider: Pick<TrafficProvider, "program" | "withdraw">;
  /** Share of the requests by address, over the long run and over resolvers; undefined: no such name. */
  shares(label: string): Promise<ReadonlyMap<string, number> | undefined>;
  /** Another owner has the name, and its one address is 192.0.2.99. */
  occupy(label: string): Promise<void>;
  /** Another client removes all addresses of one of our names. */
  damage(label: string): Promise<void>;
}

const never = new AbortController().signal;

function name(label: string, targets: readonly TrafficTarget[]): TrafficName {
  return { label, profile: objectKey("work", "profile"), ttlSeconds: 60, targets };
}

export function target(host: number, more: Partial<TrafficTarget> = {}): TrafficTarget {
  return { name: `fleet-uid#hello#c${host}`, weight: 1, addresses: [`192.0.2.${host}`], ...more };
}

/** The contract of every provider. */
export function describeProvider(world: () => ProviderWorld): void {
  let count = 0;
  const fresh = (): string => `work-name${++count}`;
  const program = (label: string, ...targets: readonly TrafficTarget[]) =>
    world().provider.program(name(label, targets), never);
  const expectShares = async (label: string, expected: Readonly<Record<string, number>>): Promise<void> => {
    const shares = await world().shares(label);
    expect(new Set(shares?.keys())).toEqual(new Set(Object.keys(expected)));
    for (const [address, share] of Object.entries(expected)) {
      const found = shares?.get(address) ?? 0;
      expect(Math.abs(found - share), `${address} gets ${found}, not ${share}`).toBeLessThan(0.03);
    }
  };

  it("resolves a name to its targets, by weight", async () => {
    const label = fresh();
    expect(await program(label, target(1, { weight: 300 }), target(2, { weight: 100 }))).toMatchObject({
      kind: "programmed",
      changed: true,
    });
    await expectShares(label, { "192.0.2.1": 0.75, "192.0.2.2": 0.25 });
  });

  it("writes nothing if nothing differs", async () => {
    const label = fresh();
    await program(label, target(1), target(2));
    expect(await program(label, target(1), target(2))).toMatchObject({ kind: "programmed", changed: false });
  });

  it("follows targets that are added, removed and changed", async () => {
    const label = fresh();
    await program(label, target(1), target(2));
    await program(label, target(2), target(3), target(4, { addresses: ["192.0.2.44", "2001:db8::4"] }));
    await expectShares(label, { "192.0.2.2": 1 / 3, "192.0.2.3": 1 / 3, "192.0.2.44": 1 / 3 });
    await program(label, target(2, { addresses: ["192.0.2.22"] }));
    await expectShares(label, { "192.0.2.22": 1 });
  });

  it("keeps a name without targets", async () => {
    const label = fresh();
    await program(label, target(1));
    await program(label);
    await expectShares(label, {});
  });

  it("leaves degraded targets out, and answers all if all are degraded", async () => {
    const label = fresh();
    await program(label, target(1, { degraded: true }), target(2));
    await expectShares(label, { "192.0.2.2": 1 });
    await program(label, target(1, { degraded: true }), target(2, { degraded: true }));
    await expectShares(label, { "192.0.2.1": 0.5, "192.0.2.2": 0.5 });
  });

  it("sends to drained targets only where no other is left", async () => {
    const label = fresh();
    await program(label, target(1, { drained: true }), target(2));
    await expectShares(label, { "192.0.2.2": 1 });
    await program(label, target(1, { drained: true }), target(2, { degraded: true }));
    await expectShares(label, { "192.0.2.1": 1 });
  });

  it("sends to the targets that serve first, and fails over to the next", async () => {
    const label = fresh();
    const first = { priority: 1 };
    const second = { priority: 2 };
    await program(label, target(1, first), target(2, first), target(3, second));
    await expectShares(label, { "192.0.2.1": 0.5, "192.0.2.2": 0.5 });
    await program(label, target(1, { ...first, degraded: true }), target(2, first), target(3, second));
    await expectShares(label, { "192.0.2.2": 1 });
    const down = { ...first, degraded: true };
    await program(label, target(1, down), target(2, down), target(3, second));
    await expectShares(label, { "192.0.2.3": 1 });
  });

  it("reverts changes by others to its names", async () => {
    const label = fresh();
    await program(label, target(1));
    await world().damage(label);
    expect(await program(label, target(1))).toMatchObject({ kind: "programmed", changed: true });
    await expectShares(label, { "192.0.2.1": 1 });
  });

  it("neither claims nor removes a name of another owner", async () => {
    const label = fresh();
    await world().occupy(label);
    expect(await program(label, target(1))).toMatchObject({ kind: "taken" });
    await world().provider.withdraw(label, never);
    await expectShares(label, { "192.0.2.99": 1 });
  });

  it("removes its name permanently", async () => {
    const label = fresh();
    await program(label, target(1), target(2));
    await world().provider.withdraw(label, never);
    expect(await world().shares(label)).toBeUndefined();
    await world().provider.withdraw(label, never);
    await program(label, target(3));
    await expectShares(label, { "192.0.2.3": 1 });
  });
}
