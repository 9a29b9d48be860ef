import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { noJournal } from "#storage/journal.ts";
import { Store } from "#storage/store.ts";
import { AddressObjects } from "./address-objects.ts";
import { ServiceAllocations } from "./allocations.ts";

function world() {
  const store = new Store({ journal: noJournal, clock: new FakeClock() });
  const allocations = new ServiceAllocations({ serviceRanges: ["10.0.0.0/16", "fd00::/112"] });
  let uids = 0;
  const objects = new AddressObjects({ store, allocations, newUid: () => `uid-${(uids += 1)}` });
  const [services, addresses] = [store.table("services"), store.table("ipaddresses.networking.k8s.io")];
  store.onChange((change) => {
    if (change.table === services) allocations.stored(change.after?.object, change.before?.object);
    objects.observe(change);
  });
  return {
    addresses,
    collect: (budget = 100) => store.write((tx) => objects.collect(tx, budget)),
    service: (name: string, ...clusterIPs: string[]) =>
      store.write((tx) =>
        tx.put(services, `n/${name}`, {
          apiVersion: "v1",
          kind: "Service",
          metadata: { name, namespace: "n" },
          spec: { clusterIPs },
        }),
      ),
    address: (name: string, parent: string, labels = {}) =>
      store.write((tx) =>
        tx.put(addresses, name, {
          apiVersion: "networking.k8s.io/v1",
          kind: "IPAddress",
          metadata: { name, labels },
          spec: { parentRef: { resource: "services", namespace: "n", name: parent } },
        }),
      ),
    remove: (name: string) => store.write((tx) => tx.remove(addresses, name)),
    parents: () =>
      Object.fromEntries(
        [...addresses.entries()].map((it) => [
          it.key,
          (it.object["spec"] as { parentRef: { name: string } }).parentRef.name,
        ]),
      ),
    revision: () => store.revision,
  };
}

const OURS = { "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" };

describe("IPAddresses of Services", () => {
  it("are created for all existing Services at the start, in bounded batches", async () => {
    const at = world();
    await at.service("a", "10.0.0.9", "FD00::9");
    await at.service("b", "None");
    await at.collect(1);
    expect(Object.keys(at.parents())).toHaveLength(1);
    await at.collect(1);
    expect(at.parents()).toEqual({ "10.0.0.9": "a", "fd00::9": "a" });
    const before = at.revision();
    await at.collect();
    expect(at.revision()).toBe(before);
  });

  it("are restored after a delete or change, and deleted when no Service holds the address", async () => {
    const at = world();
    await at.service("a", "10.0.0.9");
    await at.collect();
    await at.remove("10.0.0.9");
    await at.collect();
    expect(at.parents()).toEqual({ "10.0.0.9": "a" });
    await at.address("10.0.0.9", "other", OURS);
    await at.collect();
    expect(at.parents()).toEqual({ "10.0.0.9": "a" });
    await at.address("10.0.0.10", "gone", OURS);
    await at.address("10.0.0.11", "theirs");
    await at.collect();
    expect(at.parents()).toEqual({ "10.0.0.9": "a", "10.0.0.11": "theirs" });
  });
});
