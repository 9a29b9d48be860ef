import { describe, expect, it } from "vitest";
import { diffDevice, type WireguardChange } from "./diff.ts";
import { type ActualDevice, normalizeDevice, type WireguardDevice, type WireguardPeer } from "./state.ts";
import { setRequest } from "./uapi.ts";
import { setCommands } from "./wg.ts";

const key = (fill: number): string => Buffer.alloc(32, fill).toString("base64");
const [ANN, BOB, EVE] = [key(1), key(2), key(3)];

const device = (...peers: readonly WireguardPeer[]): WireguardDevice =>
  normalizeDevice({ name: "fl-wg00", privateKey: key(64), listenPort: 31_820, mtu: 1408, peers }).desired;
const actual = (...peers: readonly WireguardPeer[]): ActualDevice => ({
  ...device(),
  isUp: true,
  peers: peers.map((it) => ({ persistentKeepaliveSeconds: 0, ...it, rxBytes: 1, txBytes: 2 })),
});
const EMPTY: ActualDevice = { name: "fl-wg00", listenPort: 0, fwmark: 0, mtu: 1420, isUp: false, peers: [] };

const BEFORE: readonly WireguardPeer[] = [
  {
    publicKey: ANN,
    presharedKey: key(9),
    endpoint: "192.0.2.1:9",
    allowedIPs: ["10.1.0.0/16", "fd00:1::/48"],
  },
  { publicKey: BOB, allowedIPs: ["10.2.0.0/16", "10.3.0.0/16"] },
];
/** Ann loses a prefix and the preshared key, and is moved; Eve takes Bob's place, but for a prefix that goes to Ann. */
const AFTER: readonly WireguardPeer[] = [
  { publicKey: ANN, endpoint: "[2001:db8::1]:9", allowedIPs: ["10.1.0.0/16", "10.3.0.0/16"] },
  { publicKey: EVE, allowedIPs: ["10.2.0.0/16"], persistentKeepaliveSeconds: 20 },
];

describe.each([
  ["new", diffDevice(EMPTY, { ...device(...BEFORE), fwmark: 7 }, new Map())],
  ["changed", diffDevice(actual(...BEFORE), device(...AFTER), new Map([[ANN, "192.0.2.1:9"]]))],
])("a device that is %s", (name, change: WireguardChange | undefined) => {
  it("is configured by these lines of the protocol", async () => {
    await expect(change && setRequest(change)).toMatchFileSnapshot(`goldens/${name}.uapi`);
  });

  it("is configured by these commands, without secrets", async () => {
    const commands = change === undefined ? [] : setCommands("fl-wg00", change);
    const lines = commands.map(
      (it) => `wg ${it.args.join(" ")}${it.input === undefined ? "" : ` <${it.input}`}\n`,
    );
    await expect(lines.join("")).toMatchFileSnapshot(`goldens/${name}.wg`);
    expect(commands.flatMap((it) => it.args)).not.toContain(key(9));
    expect(commands.flatMap((it) => it.args)).not.toContain(key(64));
  });
});

describe("an endpoint", () => {
  const learned = actual({ publicKey: ANN, endpoint: "192.0.2.200:9", allowedIPs: [] });
  const named = (endpoint?: string): WireguardDevice =>
    device({ publicKey: ANN, allowedIPs: [], ...(endpoint === undefined ? {} : { endpoint }) });

  it.each([
    ["that is not named stays as it was learned", named(), "192.0.2.1:9", undefined],
    ["that was applied before stays as it was learned since", named("192.0.2.1:9"), "192.0.2.1:9", undefined],
    ["that differs from the one applied before is set", named("192.0.2.2:9"), "192.0.2.1:9", "192.0.2.2:9"],
    ["that is named for the first time is set", named("192.0.2.2:9"), undefined, "192.0.2.2:9"],
    ["that WireGuard has learned itself needs no change", named("192.0.2.200:9"), "192.0.2.1:9", undefined],
  ])("%s", (_, desired, last, expected) => {
    const change = diffDevice(learned, desired, new Map(last === undefined ? [] : [[ANN, last]]));
    expect(change?.peers[0]?.endpoint).toBe(expected);
    expect(change === undefined).toBe(expected === undefined);
  });

  it("that is held is set when WireGuard has learned another since", () => {
    const held = device({ publicKey: ANN, allowedIPs: [], endpoint: "192.0.2.1:9", isHeld: true });
    const last = new Map([[ANN, "192.0.2.1:9"]]);
    expect(diffDevice(learned, held, last)?.peers[0]?.endpoint).toBe("192.0.2.1:9");
    const there = actual({ publicKey: ANN, endpoint: "192.0.2.1:9", allowedIPs: [] });
    expect(diffDevice(there, held, last)).toBeUndefined();
  });

  it("of a peer that is new is set whatever was applied before", () => {
    const change = diffDevice(actual(), named("192.0.2.1:9"), new Map([[ANN, "192.0.2.1:9"]]));
    expect(change?.peers).toMatchObject([{ endpoint: "192.0.2.1:9", isNew: true }]);
  });
});

describe("a device", () => {
  const made = (change: Partial<WireguardDevice>) => () => normalizeDevice({ ...device(), ...change });
  it.each([
    ["listenPort", made({ listenPort: 0 }), /listenPort must be a whole number from 1 to 65535, got 0/],
    ["mtu", made({ mtu: 1279 }), /mtu must be .* from 1280/],
    ["fwmark", made({ fwmark: 2 ** 32 }), /fwmark must be/],
    ["name", made({ name: "fl wg" }), /"fl wg" is not the name of a device/],
    ["privateKey", made({ privateKey: "secret" }), /privateKey is not a WireGuard key/],
  ])("with a wrong field is refused by name: %s", (_, make, message) => {
    expect(make).toThrow(message);
  });

  const good: WireguardPeer = { publicKey: BOB, allowedIPs: ["10.2.0.0/16"] };
  const first: WireguardPeer = { publicKey: ANN, allowedIPs: ["10.1.0.0/16"] };
  const bad: WireguardPeer = { publicKey: EVE, allowedIPs: [] };
  it.each([
    ["a malformed key", { ...bad, publicKey: "hostile" }, /peers\[1\]\.publicKey is not a WireGuard key/],
    ["a malformed preshared key", { ...bad, presharedKey: "" }, /peers\[1\]\.presharedKey/],
    [
      "the key of an earlier peer",
      { ...bad, publicKey: ANN },
      /peers\[1\]\.publicKey is that of .* an earlier peer/,
    ],
    [
      "a prefix of an earlier peer",
      { ...bad, allowedIPs: ["10.1.0.0/16"] },
      /peers\[1\]\.allowedIPs has 10\.1\.0\.0\/16, as has/,
    ],
    [
      "bits behind a prefix",
      { ...bad, allowedIPs: ["10.1.0.1/16"] },
      /allowedIPs has "10\.1\.0\.1\/16", which is not/,
    ],
    [
      "a name as endpoint",
      { ...bad, endpoint: "relay.example:9" },
      /peers\[1\]\.endpoint "relay\.example:9"/,
    ],
    ["port 0", { ...bad, endpoint: "192.0.2.1:0" }, /endpoint "192\.0\.2\.1:0" is not an address and a port/],
    ["a line feed", { ...bad, endpoint: "192.0.2.1:9\nprivate_key=0" }, /peers\[1\]\.endpoint/],
    [
      "a keepalive out of range",
      { ...bad, persistentKeepaliveSeconds: 65_536 },
      /persistentKeepaliveSeconds/,
    ],
  ])("leaves out a peer with %s, and has the others", (_, peer, reason) => {
    const { desired, refused } = normalizeDevice({ ...device(), peers: [first, peer, good] });
    expect(desired.peers.map((it) => it.publicKey)).toEqual([ANN, BOB]);
    expect(refused).toEqual([{ publicKey: peer.publicKey, reason: expect.stringMatching(reason) as string }]);
  });

  it("has its prefixes and endpoints in canonical text", () => {
    const peer = { publicKey: ANN, endpoint: "[FD00::0:1]:9", allowedIPs: ["FD00:1:0::/48", "fd00:1::/48"] };
    expect(device(peer).peers).toMatchObject([{ endpoint: "[fd00::1]:9", allowedIPs: ["fd00:1::/48"] }]);
  });
});
