import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { WireguardDevice } from "@fairlead/os/wireguard/state.ts";
import { SESSION_MS, SilentPeers } from "./silent-peers.ts";

const device = (...keys: readonly string[]): WireguardDevice => ({
  name: "fl-wg00",
  privateKey: "",
  listenPort: 31_820,
  mtu: 1408,
  peers: keys.map((publicKey) => ({ publicKey, endpoint: "192.0.2.1:9", allowedIPs: [] })),
});
/** How often an agent looks at its devices at least. Unit: milliseconds. */
const PASS_MS = 60_000;

describe("a peer of WireGuard", () => {
  const look = (silent: SilentPeers, bytes: number, nowMs: number) =>
    silent.note(device("a"), new Map([["a", bytes]]), nowMs);

  it("is forgotten once nothing has come from it for as long as a session lasts, and once only", () => {
    const silent = new SilentPeers();
    expect(look(silent, 148, 0)).toEqual(new Set());
    expect(look(silent, 148, SESSION_MS - 1)).toEqual(new Set());
    expect(look(silent, 148, SESSION_MS)).toEqual(new Set(["a"]));
    for (let passes = 1; passes <= 100; passes++)
      expect(look(silent, 0, SESSION_MS + passes * PASS_MS)).toEqual(new Set());
  });

  it("that has sent as much again since it was forgotten is new", () => {
    const silent = new SilentPeers();
    look(silent, 148, 0);
    expect(look(silent, 148, SESSION_MS)).toEqual(new Set(["a"]));
    expect(look(silent, 148, SESSION_MS + PASS_MS)).toEqual(new Set());
  });

  it("stays as long as anything comes from it, however seldom within that time", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: SESSION_MS - 1 })), (steps) => {
        const silent = new SilentPeers();
        let nowMs = 0;
        for (const [at, stepMs] of steps.entries()) {
          nowMs += stepMs;
          expect(look(silent, 148 + at, nowMs)).toEqual(new Set());
        }
      }),
    );
  });

  it("stays where no endpoint of it is known but the one that WireGuard has learned", () => {
    const silent = new SilentPeers();
    const learned = { ...device(), peers: [{ publicKey: "a", allowedIPs: [] }] };
    for (const nowMs of [0, SESSION_MS, 2 * SESSION_MS])
      expect(silent.note(learned, new Map([["a", 148]]), nowMs)).toEqual(new Set());
  });

  it("is new on a device that was removed in the meantime", () => {
    const silent = new SilentPeers();
    look(silent, 148, 0);
    silent.retain(new Set(["fl-wg00"]));
    silent.retain(new Set());
    expect(look(silent, 148, SESSION_MS)).toEqual(new Set());
  });

  it("is looked at apart from the same peer of another device", () => {
    const silent = new SilentPeers();
    look(silent, 148, 0);
    const other = { ...device("a"), name: "fl-wg01" };
    expect(silent.note(other, new Map([["a", 148]]), SESSION_MS)).toEqual(new Set());
  });
});

/** One end of a tunnel, as far as WireGuard's handshakes go. Times are seconds. */
interface End {
  /** How far its clock is ahead of the true time. */
  offset: number;
  /** The time of the last handshake of the other end that it accepted. */
  lastTime: number;
  received: number;
  sessionUntil: number;
  readonly silent: SilentPeers;
}

describe("two ends of a tunnel", () => {
  const STEP = 5;
  const BEFORE = 600;
  /** The session ends after 180 s, the silence is noticed after as long and up to two passes. */
  const HEALED = 3 * 180 + 2 * 60;
  const end = (): End => ({
    offset: 0,
    lastTime: Number.NEGATIVE_INFINITY,
    received: 0,
    sessionUntil: 0,
    silent: new SilentPeers(),
  });

  function begin(from: End, to: End, now: number): void {
    if (now + from.offset <= to.lastTime) return;
    to.lastTime = now + from.offset;
    to.received += 148;
    from.received += 92;
    from.sessionUntil = to.sessionUntil = now + 180;
  }

  function pass(of: End, now: number): void {
    if (of.silent.note(device("a"), new Map([["a", of.received]]), now * 1000).size === 0) return;
    // No session is lost.
    expect(of.sessionUntil).toBeLessThanOrEqual(now);
    Object.assign(of, { lastTime: Number.NEGATIVE_INFINITY, received: 0 });
  }

  /** One step of time. `senders`: which of the ends have something to send. */
  function step(ends: readonly [End, End], senders: readonly number[], now: number): void {
    const [first, second] = ends;
    // A session is renewed by the end that sends.
    for (const at of senders)
      if (first.sessionUntil - now <= 60) begin(at === 0 ? first : second, at === 0 ? second : first, now);
    if (first.sessionUntil > now) for (const it of ends) it.received += 32;
    else if (now > 0) expect(now).toSatisfy((at: number) => at >= BEFORE && at < BEFORE + HEALED);
  }

  it("whose clocks were set back have a session again after minutes, whichever of them has something to send", () => {
    const setBack = fc.integer({ min: 0, max: 7200 });
    const phase = fc.integer({ min: 0, max: 11 });
    fc.assert(
      fc.property(
        fc.tuple(setBack, setBack),
        fc.tuple(phase, phase),
        fc.constantFrom([0], [1], [0, 1]),
        (back, phases, senders) => {
          const ends = [end(), end()] as const;
          for (let now = 0; now < BEFORE + 2 * HEALED; now += STEP) {
            if (now === BEFORE) for (const [at, it] of ends.entries()) it.offset = -(back[at] ?? 0);
            step(ends, senders, now);
            for (const [at, it] of ends.entries()) if ((now / STEP) % 12 === phases[at]) pass(it, now);
          }
        },
      ),
    );
  });
});
