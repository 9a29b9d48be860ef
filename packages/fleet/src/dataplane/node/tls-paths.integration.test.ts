import { afterEach, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createLogger } from "@fairlead/base/log.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import type { MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Pair } from "./devices.ts";
import { TlsPaths } from "./tls-paths.ts";

const WAIT_MS = 1750;
const own = { index: 0, keys: new Map([[1, generateKeyPair().privateKey]]) };
const relay: MeshRelay = {
  name: "relay-1",
  addresses: ["192.0.2.1", "192.0.2.2"],
  basePort: 21_000,
  publicKey: generateKeyPair().publicKey,
  tlsPort: 443,
};
const pair: Pair = {
  id: "b/0/1",
  device: "fl-wg01",
  epoch: 1,
  plane: 0,
  port: 31_821,
  remote: { cluster: "b", ordinal: 0, node: "n", index: 1 },
  remoteKey: generateKeyPair().publicKey,
};

let paths: TlsPaths | undefined;
afterEach(() => paths?.[Symbol.asyncDispose]());

function world() {
  const clock = new FakeClock();
  const attempts: string[] = [];
  let changes = 0;
  paths = new TlsPaths({
    deps: { ...systemDeps(createLogger("test", "silent")), clock },
    onChange: () => changes++,
    async connect(address, port) {
      attempts.push(`${address} ${port}`);
      throw new Error("refused");
    },
  });
  return { clock, attempts, paths, changes: () => changes };
}

it("a pair without another path is tried over TLS when UDP has had three requests, at each address of the relay", async () => {
  const { clock, attempts, paths: tls, changes } = world();
  await tls.update([pair], own, [relay]);
  await clock.advance(WAIT_MS - 1);
  expect({ attempts, changes: changes() }).toEqual({ attempts: [], changes: 0 });
  await clock.advance(1);
  expect(changes()).toBe(1);
  await tls.update([pair], own, [relay]);
  await clock.advance(2000);
  expect(attempts.slice(0, 2)).toEqual(["192.0.2.1 443", "192.0.2.2 443"]);
  expect(tls.endpoints()).toEqual(new Map());
});

it("a pair that another path has in the meantime is not tried, and attempts end when it has one", async () => {
  const { clock, attempts, paths: tls } = world();
  await tls.update([pair], own, [relay]);
  await tls.update([], own, [relay]);
  await clock.advance(WAIT_MS);
  await tls.update([pair], own, [relay]);
  await clock.advance(WAIT_MS - 1);
  await tls.update([pair], own, [relay]);
  expect(attempts).toEqual([]);
  await clock.advance(1);
  await tls.update([pair], own, [relay]);
  await clock.advance(0);
  expect(attempts).toHaveLength(1);
  await tls.update([], own, [relay]);
  await clock.advance(60_000);
  expect(attempts).toHaveLength(1);
});

it("relays without a port for TLS are left alone", async () => {
  const { clock, attempts, paths: tls } = world();
  const { tlsPort: _none, ...other } = relay;
  for (const waitMs of [WAIT_MS, WAIT_MS]) {
    await tls.update([pair], own, [other]);
    await clock.advance(waitMs);
  }
  expect(attempts).toEqual([]);
  expect(clock.pending).toBe(0);
});
