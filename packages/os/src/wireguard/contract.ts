import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApplyResult, WireguardDevices } from "./devices.ts";
import { generateKeyPair } from "./keys.ts";
import { type ActualDevice, normalizeDevice, type WireguardDevice, type WireguardPeer } from "./state.ts";

const UNCHANGED: Partial<ApplyResult> = { isCreated: false, change: undefined, refused: [] };

/** A machine with WireGuard, on which the contract runs. */
export interface WireguardMachine {
  /** Its devices as a program sees them that has just started. */
  start(): Promise<WireguardDevices>;
  /** Has the owner of `privateKey` call the device from elsewhere; returns the address and port from which it calls. */
  call(device: WireguardDevice, privateKey: string): Promise<string>;
  /** Ends the device behind the back of the driver. */
  lose(name: string): Promise<void>;
}

/** The contract of every back end of the WireGuard driver. `make` returns a machine without devices. */
export function describeWireguard(
  title: string,
  make: () => Promise<WireguardMachine>,
  options: { readonly runs: number },
): void {
  const name = "fl-contract";
  const own = generateKeyPair();
  const [ann, bob, eve] = [generateKeyPair(), generateKeyPair(), generateKeyPair()];
  const bare: WireguardDevice = {
    name,
    privateKey: own.privateKey,
    listenPort: 31_820,
    mtu: 1408,
    peers: [],
  };
  const withPeers = (...peers: readonly WireguardPeer[]): WireguardDevice => ({ ...bare, peers });
  const peer = (publicKey: string, ...allowedIPs: readonly string[]): WireguardPeer => ({
    publicKey,
    allowedIPs,
  });

  describe(title, () => {
    let machine: WireguardMachine;
    let devices: WireguardDevices;
    let signal: AbortSignal;
    beforeEach(async () => {
      signal = AbortSignal.timeout(110_000);
      machine = await make();
      devices = await machine.start();
    });
    afterEach(async () => {
      for (const it of await devices.list(signal)) await devices.remove(it, signal);
    });

    it("reads an absent device as undefined, and removes it without an error", async () => {
      expect(await devices.read(name, signal)).toBeUndefined();
      await devices.remove(name, signal);
      expect(await devices.list(signal)).toEqual([]);
    });

    it("makes a device that is up, and lists it until it is removed", async () => {
      expect(await devices.apply(bare, signal)).toMatchObject({ isCreated: true });
      expect(await devices.read(name, signal)).toMatchObject({ isUp: true, mtu: 1408, listenPort: 31_820 });
      expect(await devices.list(signal)).toEqual([name]);
      await devices.remove(name, signal);
      await devices.remove(name, signal);
      expect(await devices.read(name, signal)).toBeUndefined();
      expect(await devices.list(signal)).toEqual([]);
    });

    it("makes any state out of any other, and finds nothing to change then", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(arbitraryDevice(bare), { minLength: 1, maxLength: 4 }), async (states) => {
          for (const state of states) {
            await devices.apply(state, signal);
            expect(comparable(await devices.read(name, signal))).toEqual(
              comparable(normalizeDevice(state).desired),
            );
            expect(await devices.apply(state, signal)).toMatchObject(UNCHANGED);
          }
        }),
        { numRuns: options.runs },
      );
    });

    it("changes one peer and leaves the others alone", async () => {
      await devices.apply(
        withPeers(peer(ann.publicKey, "10.1.0.0/16"), peer(bob.publicKey, "10.2.0.0/16")),
        signal,
      );
      const result = await devices.apply(
        withPeers(peer(ann.publicKey, "10.1.0.0/16", "10.3.0.0/16"), peer(bob.publicKey, "10.2.0.0/16")),
        signal,
      );
      const change = { publicKey: ann.publicKey, addedIPs: ["10.3.0.0/16"], isNew: false };
      expect(result.change).toMatchObject({ peers: [change], releasedIPs: [], removedPeers: [] });
      expect(result.change?.peers).toHaveLength(1);
    });

    it("moves prefixes between peers, also from one that is removed", async () => {
      const both = ["10.1.0.0/16", "fd00:1::/48"];
      for (const state of [
        withPeers(peer(ann.publicKey, ...both), peer(bob.publicKey, "10.2.0.0/16")),
        withPeers(peer(ann.publicKey, "10.2.0.0/16"), peer(bob.publicKey, ...both)),
        withPeers(peer(eve.publicKey, "10.2.0.0/16", ...both)),
        withPeers(peer(eve.publicKey)),
      ]) {
        await devices.apply(state, signal);
        expect(comparable(await devices.read(name, signal))).toEqual(
          comparable(normalizeDevice(state).desired),
        );
      }
    });

    it("keeps an endpoint that was learned, through changes and a restart, until another is named", async () => {
      const named = { ...peer(ann.publicKey, "10.1.0.0/16"), endpoint: "198.51.100.7:9" };
      await devices.apply(withPeers(named), signal);
      const learned = await machine.call(bare, ann.privateKey);
      const endpoint = async (): Promise<string | undefined> =>
        (await devices.read(name, signal))?.peers.find((it) => it.publicKey === ann.publicKey)?.endpoint;
      await expect.poll(endpoint, { timeout: 30_000 }).toBe(learned);
      await devices.apply(withPeers({ ...named, persistentKeepaliveSeconds: 20 }), signal);
      devices = await machine.start();
      const more = { ...named, allowedIPs: ["10.1.0.0/16", "10.4.0.0/16"] };
      await devices.apply(withPeers(more), signal);
      await devices.apply(withPeers(more, peer(bob.publicKey, "10.2.0.0/16")), signal);
      expect(await endpoint()).toBe(learned);
      const moved = await devices.apply(withPeers({ ...more, endpoint: "198.51.100.8:9" }), signal);
      expect(moved.change?.peers).toMatchObject([{ endpoint: "198.51.100.8:9" }]);
      expect(moved.endpoints.get(ann.publicKey)).toBe(learned);
      const held = withPeers({ ...more, endpoint: "198.51.100.8:9", isHeld: true });
      const again = await machine.call(bare, ann.privateKey);
      await expect.poll(endpoint, { timeout: 30_000 }).toBe(again);
      expect((await devices.apply(held, signal)).change?.peers).toMatchObject([
        { endpoint: "198.51.100.8:9" },
      ]);
    });

    it("reads the time of the handshake and the bytes of a peer", async () => {
      await devices.apply(withPeers(peer(ann.publicKey)), signal);
      expect((await devices.read(name, signal))?.peers[0]).toMatchObject({ rxBytes: 0, txBytes: 0 });
      expect((await devices.read(name, signal))?.peers[0]).not.toHaveProperty("latestHandshakeMs");
      await machine.call(bare, ann.privateKey);
      await expect
        .poll(async () => (await devices.read(name, signal))?.peers[0]?.latestHandshakeMs ?? 0, {
          timeout: 30_000,
        })
        .toBeGreaterThan(1e12);
    });

    it("forgets what it has of a peer, and leaves the others and the configuration as they are", async () => {
      const named = { ...peer(ann.publicKey, "10.1.0.0/16", "fd00:1::/48"), endpoint: "198.51.100.7:9" };
      const state = withPeers(named, peer(bob.publicKey, "10.2.0.0/16"));
      await devices.apply(state, signal);
      await machine.call(bare, ann.privateKey);
      const received = async (): Promise<number> =>
        (await devices.apply(state, signal)).received.get(ann.publicKey) ?? 0;
      await expect.poll(received, { timeout: 30_000 }).toBeGreaterThan(0);
      await devices.forget(state, new Set([bob.publicKey]), signal);
      expect(await received()).toBeGreaterThan(0);
      await devices.forget(state, new Set([ann.publicKey]), signal);
      const after = await devices.read(name, signal);
      expect(comparable(after)).toEqual(comparable(normalizeDevice(state).desired));
      const found = after?.peers.find((it) => it.publicKey === ann.publicKey);
      expect(found).toMatchObject({ rxBytes: 0, endpoint: "198.51.100.7:9" });
      expect(found).not.toHaveProperty("latestHandshakeMs");
    });

    it("makes a device again that was lost, and reports it", async () => {
      const state = withPeers({ ...peer(ann.publicKey, "10.1.0.0/16"), endpoint: "198.51.100.7:9" });
      await devices.apply(state, signal);
      await machine.lose(name);
      expect(await devices.read(name, signal)).toBeUndefined();
      const { isCreated, change } = await devices.apply(state, signal);
      expect(isCreated).toBe(true);
      expect(change?.peers).toMatchObject([{ isNew: true, endpoint: "198.51.100.7:9" }]);
      expect(comparable(await devices.read(name, signal))).toEqual(
        comparable(normalizeDevice(state).desired),
      );
    });

    it("carries out changes of one device that come at once one after the other", async () => {
      const states = [ann, bob, eve].map((it) => withPeers(peer(it.publicKey, "10.1.0.0/16")));
      const results = await Promise.all(states.map((it) => devices.apply(it, signal)));
      expect(results.map((it) => it.isCreated)).toEqual([true, false, false]);
      expect((await devices.read(name, signal))?.peers.map((it) => it.publicKey)).toEqual([eve.publicKey]);
    });

    it("refuses a device that WireGuard could not have, and then changes nothing", async () => {
      const state = withPeers(peer(ann.publicKey, "10.1.0.0/16"));
      await devices.apply(state, signal);
      expect(() => devices.apply({ ...state, listenPort: 0 }, signal)).toThrow(/listenPort/);
      expect(await devices.apply(state, signal)).toMatchObject(UNCHANGED);
    });

    it("leaves out peers that WireGuard could not have, and reports them", async () => {
      const good = [peer(ann.publicKey, "10.1.0.0/16"), peer(bob.publicKey, "10.2.0.0/16")] as const;
      const bad = [
        peer("hostile", "10.3.0.0/16"),
        peer(eve.publicKey, "10.1.0.0/16"),
        peer(ann.publicKey, "10.4.0.0/16"),
        peer(own.publicKey, "10.5.0.0/16"),
      ];
      const { refused } = await devices.apply(withPeers(good[0], ...bad, good[1]), signal);
      expect(refused.map((it) => it.publicKey)).toEqual(bad.map((it) => it.publicKey));
      expect(refused[1]?.reason).toMatch(/peers\[2\]\.allowedIPs has 10\.1\.0\.0\/16/);
      expect(await devices.apply(withPeers(...good), signal)).toMatchObject(UNCHANGED);
    });
  });
}

/** States of which each differs from the others in any part. */
function arbitraryDevice(bare: WireguardDevice): fc.Arbitrary<WireguardDevice> {
  const prefixes = [
    "10.1.0.0/16",
    "10.2.0.0/16",
    "10.2.3.0/24",
    "10.0.0.1/32",
    "0.0.0.0/0",
    "fd00:1::/48",
    "::/0",
  ];
  const keys = [1, 2, 3].map((it) => Buffer.alloc(32, it).toString("base64"));
  const presharedKey = fc.constantFrom(...[7, 8].map((it) => Buffer.alloc(32, it).toString("base64")));
  const endpoint = fc.constantFrom("198.51.100.1:9", "198.51.100.2:65535", "[2001:db8::1]:9");
  const settings = fc.record(
    { presharedKey, endpoint, persistentKeepaliveSeconds: fc.constantFrom(0, 20, 65_535) },
    { requiredKeys: [] },
  );
  return fc
    .record({
      privateKey: fc.constantFrom(bare.privateKey, Buffer.alloc(32, 255).toString("base64")),
      listenPort: fc.constantFrom(31_820, 31_821),
      fwmark: fc.constantFrom(0, 0xffff_ffff),
      mtu: fc.constantFrom(1280, 1408),
      // The owner of each prefix: a peer, or none of them.
      owners: fc.array(fc.nat(keys.length), { minLength: prefixes.length, maxLength: prefixes.length }),
      settings: fc.array(fc.option(settings), { minLength: keys.length, maxLength: keys.length }),
    })
    .map(({ owners, settings: of, ...device }) => ({
      ...bare,
      ...device,
      peers: keys.flatMap((publicKey, at) => {
        const values = of[at];
        if (values === null || values === undefined) return [];
        return [{ ...values, publicKey, allowedIPs: prefixes.filter((_, which) => owners[which] === at) }];
      }),
    }));
}

/** What was asked for, in a fixed order. An endpoint that was not named is not compared. */
function comparable(device: ActualDevice | WireguardDevice | undefined): unknown {
  if (device === undefined) return undefined;
  const { name, privateKey, listenPort, fwmark, mtu } = device;
  const peers = device.peers.map(({ publicKey, presharedKey, allowedIPs, persistentKeepaliveSeconds }) => ({
    publicKey,
    presharedKey,
    persistentKeepaliveSeconds,
    allowedIPs: allowedIPs.toSorted(),
  }));
  return {
    name,
    privateKey,
    listenPort,
    fwmark,
    mtu,
    peers: peers.toSorted((a, b) => (a.publicKey < b.publicKey ? -1 : 1)),
  };
}
