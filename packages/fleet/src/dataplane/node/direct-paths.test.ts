import { afterEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { headOf, type UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import { answerProbe } from "../control/probe.ts";
import { SEARCH_BURST, SEARCHES_PER_SECOND } from "./candidate-search.ts";
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

it.each(["to the other gateway", "from the other gateway"])(
  "a direct path in use that loses all datagrams %s is dead after at most 0.8 s, so that the gateway takes the relay",
  async (lost) => {
    const clock = new FakeClock();
    const source = { address: "198.51.100.1", port: 31_821 };
    const answering = { from: 1, to: 0, epoch: 1, key: controlKey("probe", other.privateKey, own.publicKey) };
    for (const phaseMs of [0, 1, 99, 101, 199, 249]) {
      let isCut = false;
      const send = (port: number, to: UdpEndpoint, bytes: Uint8Array): void => {
        const answer = isCut && lost.startsWith("to") ? undefined : answerProbe(bytes, answering, source);
        const arrive = (): void => {
          if (answer !== undefined && !isCut) paths?.receive(answer, port, to);
        };
        clock.after(1, arrive);
      };
      await paths?.[Symbol.asyncDispose]();
      const isUsed = (): boolean => true;
      paths = new DirectPaths({ ports: { send }, clock, log: silentLogger, isUsed, onChange: () => {} });
      paths.update([PAIR], SELF);
      await clock.advance(10 * DEAD_MS + phaseMs);
      expect({ phaseMs, isAlive: paths.isAlive(PAIR) }).toEqual({ phaseMs, isAlive: true });
      isCut = true;
      await clock.advance(800);
      expect({ phaseMs, isAlive: paths.isAlive(PAIR) }).toEqual({ phaseMs, isAlive: false });
    }
  },
);

describe("addresses that a member names and that do not answer", () => {
  const keys = Array.from({ length: 8 }, () => generateKeyPair().publicKey);
  /** Of a member that is hostile, all at one host: its gateways come and go, and change their keys and what they name. */
  const hostile = (turn: number): readonly Pair[] =>
    [0, 1, 2, 3]
      .filter((ordinal) => (turn + ordinal) % 3 !== 0)
      .map((ordinal) => ({
        ...PAIR,
        id: `b/${ordinal}/1`,
        plane: ordinal,
        remote: {
          ...PAIR.remote,
          ordinal,
          index: 10 + ordinal,
          candidates: Array.from({ length: 16 }, (_, at) => ({
            type: "public" as const,
            address: "192.168.7.9",
            basePort: 2000 + 16 * ((turn + at) % 1000),
          })),
        },
        remoteKey: keys[(turn + ordinal) % keys.length] ?? "",
      }));

  it("get a first search and one datagram a second, none but probes, whatever the member changes", async () => {
    const clock = new FakeClock();
    const sent: Uint8Array[] = [];
    const send = (_port: number, _to: UdpEndpoint, bytes: Uint8Array): void => void sent.push(bytes);
    paths = new DirectPaths({
      ports: { send },
      clock,
      log: silentLogger,
      isUsed: () => false,
      onChange: () => {},
    });
    const seconds = 60;
    for (let turn = 0; turn < 2 * seconds; turn += 1) {
      paths.update(hostile(turn), SELF);
      await clock.advance(500);
    }
    expect(sent.length).toBeGreaterThan(SEARCH_BURST);
    expect(sent.length).toBeLessThanOrEqual(SEARCH_BURST + SEARCHES_PER_SECOND * seconds);
    expect(new Set(sent.map((it) => `${headOf(it)?.kind} ${it.length}`))).toEqual(new Set(["probe 68"]));
  });

  it("do not keep those of another member, or those that answer, from being found", async () => {
    const clock = new FakeClock();
    const source = { address: "198.51.100.1", port: 31_821 };
    const answering = { from: 1, to: 0, epoch: 1, key: controlKey("probe", other.privateKey, own.publicKey) };
    const send = (port: number, to: UdpEndpoint, bytes: Uint8Array): void => {
      const answer = to.address === "203.0.113.9" ? answerProbe(bytes, answering, source) : undefined;
      if (answer !== undefined) paths?.receive(answer, port, to);
    };
    paths = new DirectPaths({
      ports: { send },
      clock,
      log: silentLogger,
      isUsed: () => false,
      onChange: () => {},
    });
    const honest: Pair = { ...PAIR, id: "c/0/1", remote: { ...PAIR.remote, cluster: "c" } };
    const mixed: Pair = {
      ...PAIR,
      id: "d/0/1",
      remote: {
        ...PAIR.remote,
        cluster: "d",
        candidates: [...(hostile(1)[0]?.remote.candidates ?? []), ...(PAIR.remote.candidates ?? [])],
      },
    };
    for (const searched of [honest, mixed]) {
      for (let turn = 0; turn < 60; turn += 1) {
        paths.update([...hostile(turn), searched], SELF);
        await clock.advance(500);
      }
      expect(paths.isAlive(searched)).toBe(true);
    }
  });
});
