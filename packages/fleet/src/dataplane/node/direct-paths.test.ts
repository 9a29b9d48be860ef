import { afterEach, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import type { UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import { answerProbe } from "../control/probe.ts";
import type { Pair } from "./devices.ts";
import { DirectPaths } from "./direct-paths.ts";
import { DEAD_MS } from "./path-choice.ts";

const [own, other] = [generateKeyPair(), generateKeyPair()];
const PAIR: Pair = {
  id: "b/0/1",
  device: "fl-wg01",
  epoch: 1,
  plane: 0,
  port: 31_821,
  remote: {
    cluster: "b",
    ordinal: 0,
    node: "n",
    index: 1,
    basePort: 31_820,
    candidates: [{ type: "reflexive", address: "203.0.113.9" }],
  },
  remoteKey: other.publicKey,
};
const SELF = { index: 0, ordinal: 0, keys: new Map([[1, own.privateKey]]) };

let paths: DirectPaths | undefined;
afterEach(() => paths?.[Symbol.asyncDispose]());

it("a direct path that answers is kept when the other gateway names its address no longer, as while its relay is gone", async () => {
  const clock = new FakeClock();
  const source = { address: "198.51.100.1", port: 31_821 };
  const answering = { from: 1, to: 0, epoch: 1, key: controlKey("probe", other.privateKey, own.publicKey) };
  const send = (port: number, to: UdpEndpoint, bytes: Uint8Array): void => {
    const answer = answerProbe(bytes, answering, source);
    if (answer !== undefined) paths?.receive(answer, port, to);
  };
  const isUsed = (): boolean => false;
  paths = new DirectPaths({ ports: { send }, clock, log: silentLogger, isUsed, onChange: () => {} });
  paths.update([PAIR], SELF);
  await clock.advance(DEAD_MS);
  expect(paths.isAlive(PAIR)).toBe(true);
  paths.update([{ ...PAIR, remote: { ...PAIR.remote, candidates: [] } }], SELF);
  await clock.advance(10 * DEAD_MS);
  expect(paths.isAlive(PAIR)).toBe(true);
});
