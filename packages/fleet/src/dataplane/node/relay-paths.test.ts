import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import type { MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { encodeControl, openControl, type UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import type { Pair } from "./devices.ts";
import { RelayPaths } from "./relay-paths.ts";

const keys = generateKeyPair();
const relayKeys = generateKeyPair();
const RELAY: MeshRelay = {
  name: "relay",
  addresses: ["192.0.2.1", "2001:db8::1"],
  basePort: 21_000,
  publicKey: relayKeys.publicKey,
};
const PAIR: Pair = {
  id: "b/0/1",
  device: "fl-wg01",
  epoch: 1,
  plane: 0,
  port: 31_821,
  remote: { cluster: "b", ordinal: 0, node: "n", index: 1 },
  remoteKey: generateKeyPair().publicKey,
};
const ENDPOINT = { address: "192.0.2.1", port: 21_001 };
/** Longer than three requests take. Unit: milliseconds. */
const TRIES_MS = 2000;

let clock: FakeClock;
let paths: RelayPaths;
let answers: boolean;
/** Of the first address alone. */
let isFirstAway: boolean;
let sent: UdpEndpoint[];
/** Answers to what was sent to the first address, which have not arrived yet. */
let late: (() => void)[];

/** A relay that asks for no cookie. */
function answer(port: number, to: UdpEndpoint, bytes: Uint8Array): void {
  sent.push(to);
  const key = controlKey("relay", relayKeys.privateKey, keys.publicKey);
  const request = openControl(bytes, key);
  if (request === undefined) return;
  const { from, epoch, nonce } = request;
  const observed = { address: "203.0.113.9", port: 31_821 };
  const head = { from, to: request.to, epoch, nonce };
  const reply = encodeControl({ kind: "registered", ...head, observed, lifetimeSeconds: 180 }, key);
  const isAway = isFirstAway && to.address === ENDPOINT.address;
  if (answers && !isAway) paths.receive(reply, port, to);
  else if (to.address === ENDPOINT.address) late.push(() => paths.receive(reply, port, to));
}

beforeEach(async () => {
  clock = new FakeClock();
  [answers, isFirstAway, sent, late] = [true, false, [], []];
  paths = new RelayPaths({ ports: { send: answer }, clock, log: silentLogger, onChange: () => {} });
  paths.update([PAIR], { index: 0, keys: new Map([[1, keys.privateKey]]) }, [RELAY]);
  await clock.advance(0);
});
afterEach(() => paths[Symbol.asyncDispose]());

it("a relay that answers is used, and asked again before NATs forget the mapping", async () => {
  expect(paths.endpoints()).toEqual(new Map([[PAIR.id, ENDPOINT]]));
  expect(paths.publicAddresses()).toEqual(["203.0.113.9"]);
  const before = sent.length;
  await clock.advance(30_000);
  expect(sent.length - before).toBe(2);
});

it("a relay that does not answer is used until its registration is due, and no longer than three requests once it is doubted", async () => {
  answers = false;
  await clock.advance(10_000);
  expect(paths.endpoints().size).toBe(1);
  paths.verify(PAIR.id);
  await clock.advance(0);
  await clock.advance(TRIES_MS);
  expect(paths.endpoints().size).toBe(0);
  // Direct paths outlive relays.
  expect(paths.publicAddresses()).toEqual(["203.0.113.9"]);
  answers = true;
  await clock.advance(4000);
  expect(paths.endpoints().size).toBe(1);
  paths.suspect(PAIR.id);
  await clock.advance(0);
  expect(paths.endpoints().size).toBe(1);
});

it("a relay whose first address answers late is used at that address, so that both gateways have the same family", async () => {
  answers = false;
  paths.verify(PAIR.id);
  await clock.advance(0);
  await clock.advance(TRIES_MS);
  expect(sent.at(-1)?.address).toBe("2001:db8::1");
  for (const arrive of late) arrive();
  expect(paths.endpoints()).toEqual(new Map([[PAIR.id, ENDPOINT]]));
});

it("a relay whose first address was away is used there again when it answers", async () => {
  isFirstAway = true;
  paths.verify(PAIR.id);
  await clock.advance(0);
  await clock.advance(TRIES_MS);
  expect([...paths.endpoints().values()]).toEqual([{ address: "2001:db8::1", port: ENDPOINT.port }]);
  await clock.advance(20_000);
  expect([...paths.endpoints().values()]).toEqual([{ address: "2001:db8::1", port: ENDPOINT.port }]);
  isFirstAway = false;
  await clock.advance(20_000);
  expect([...paths.endpoints().values()]).toEqual([ENDPOINT]);
});
