import { FleetError } from "@fairlead/base/errors.ts";
import type { WireguardChange } from "./diff.ts";
import type { EndpointRecords, WireguardDriver } from "./driver.ts";
import type { ActualDevice, ActualPeer } from "./state.ts";

/** The size of a handshake initiation. */
const HANDSHAKE_BYTES = 148;

/** WireGuard in memory. */
export interface FakeWireguard extends WireguardDriver {
  /** Each change that was carried out. */
  readonly changes: readonly WireguardChange[];
  /** A packet of the peer arrived from there. */
  learn(name: string, publicKey: string, endpoint: string, nowMs: number): void;
  /** The device goes, as when wireguard-go is killed. */
  lose(name: string): void;
}

export function createFakeWireguard(): FakeWireguard {
  const devices = new Map<string, ActualDevice>();
  const changes: WireguardChange[] = [];
  const get = (name: string): ActualDevice => {
    const device = devices.get(name);
    if (device === undefined)
      throw new FleetError("WIREGUARD_FAILED", `${name} does not exist`, { retriable: true });
    return device;
  };
  return {
    kind: "fake",
    changes,
    learn(name, publicKey, endpoint, nowMs) {
      const device = get(name);
      const peers = device.peers.map((it) =>
        it.publicKey === publicKey
          ? { ...it, endpoint, latestHandshakeMs: nowMs, rxBytes: it.rxBytes + HANDSHAKE_BYTES }
          : it,
      );
      devices.set(name, { ...device, peers });
    },
    lose(name) {
      devices.delete(name);
    },
    list: async () => [...devices.keys()],
    read: async (name) => devices.get(name),
    async create(name, mtu) {
      if (!devices.has(name))
        devices.set(name, { name, mtu, isUp: false, listenPort: 0, fwmark: 0, peers: [] });
    },
    async setUp(name, mtu) {
      devices.set(name, { ...get(name), mtu, isUp: true });
    },
    async change(name, change) {
      devices.set(name, changeDevice(get(name), change));
      changes.push(change);
    },
    async remove(name) {
      devices.delete(name);
    },
    [Symbol.dispose]() {},
  };
}

export function createFakeRecords(): EndpointRecords {
  const records = new Map<string, ReadonlyMap<string, string>>();
  return {
    read: async (name) => records.get(name) ?? new Map<string, string>(),
    async write(name, endpoints) {
      records.set(name, endpoints);
    },
  };
}

function changeDevice(device: ActualDevice, change: WireguardChange): ActualDevice {
  const { peers, releasedIPs, removedPeers, ...settings } = change;
  const after = new Map(device.peers.map((it) => [it.publicKey, it]));
  const take = (prefixes: readonly string[]): void => {
    for (const [key, it] of after)
      after.set(key, { ...it, allowedIPs: it.allowedIPs.filter((prefix) => !prefixes.includes(prefix)) });
  };
  for (const { publicKey, isNew, addedIPs, allowedIPs: _, presharedKey, ...values } of peers) {
    const before = after.get(publicKey);
    if (before === undefined && !isNew) continue;
    take(addedIPs);
    const { presharedKey: oldKey, ...old } = after.get(publicKey) ?? NEW_PEER;
    const key = presharedKey ?? oldKey ?? "";
    after.set(publicKey, {
      ...old,
      ...values,
      publicKey,
      ...(key === "" ? {} : { presharedKey: key }),
      allowedIPs: [...old.allowedIPs, ...addedIPs],
    });
  }
  take(releasedIPs);
  for (const key of removedPeers) after.delete(key);
  return { ...device, ...settings, peers: [...after.values()] };
}

const NEW_PEER: Omit<ActualPeer, "publicKey"> = {
  allowedIPs: [],
  persistentKeepaliveSeconds: 0,
  rxBytes: 0,
  txBytes: 0,
};
