import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import type { MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Pair } from "./devices.ts";
import { DirectPaths } from "./direct-paths.ts";
import { PathSteering } from "./path-steering.ts";
import { RelayPaths } from "./relay-paths.ts";

const [own, other] = [generateKeyPair(), generateKeyPair()];
const KEYS = new Map([[1, own.privateKey]]);
const RELAYS: readonly MeshRelay[] = ["one", "two"].map((name, at) => ({
  name,
  addresses: [`192.0.2.${at + 1}`],
  basePort: 21_000,
  publicKey: other.publicKey,
}));

/** How often the ids of `count` pairs are read to choose the path of each of them, and to find the pair of a datagram. */
async function readsOf(count: number): Promise<number> {
  let reads = 0;
  const pairs = Array.from({ length: count }, (_, at): Pair => {
    const remote = { cluster: `m${at}`, ordinal: 0, node: "n", index: at + 1, candidates: [] };
    return {
      get id() {
        reads += 1;
        return `m${at}/0/1`;
      },
      device: "fl-wg01",
      epoch: 1,
      plane: 0,
      port: 31_821,
      remoteKey: other.publicKey,
      remote,
    };
  });
  const options = {
    ports: { send: () => {} },
    clock: new FakeClock(),
    log: silentLogger,
    isUsed: () => false,
    onChange: () => {},
  };
  await using relays = new RelayPaths(options);
  await using direct = new DirectPaths(options);
  const steering = new PathSteering(options);
  relays.update(pairs, { index: 0, keys: KEYS }, RELAYS);
  direct.update(pairs, { index: 0, ordinal: 0, keys: KEYS });
  reads = 0;
  steering.choose(pairs, {
    cluster: "a",
    direct: (it) => direct.of(it),
    relays: relays.endpoints(),
    tls: new Map(),
  });
  return reads;
}

describe("the paths of many tunnels", () => {
  it("are chosen without that each looks at all others", async () => {
    const [few, many] = [await readsOf(25), await readsOf(100)];
    expect(many).toBeLessThanOrEqual(4 * few);
  });
});
