import { createSecretKey, type KeyObject } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { encodeControl, NO_COOKIE, openControl, type UdpEndpoint } from "#dataplane/control/datagram.ts";
import { type ControlOutcome, legId, legOf, MAX_INDEX, RegistrationTable } from "./registration-table.ts";

const HOME: UdpEndpoint = { address: "192.0.2.1", port: 4001 };
const AWAY: UdpEndpoint = { address: "192.0.2.9", port: 4009 };
const OTHER: UdpEndpoint = { address: "2001:db8::2", port: 4002 };
const LIFETIME_MS = 180_000;

const NO_KEY = createSecretKey(Buffer.alloc(32));

/** Gateways 0 to 9, each with a key for epochs 1 and 2. */
function world() {
  const clock = new FakeClock();
  const keyOf = (index: number, epoch: number): KeyObject | undefined =>
    index < 10 && (epoch === 1 || epoch === 2)
      ? createSecretKey(Buffer.alloc(32, 16 * epoch + index))
      : undefined;
  const exists = (index: number): boolean => index < 10;
  const table = new RegistrationTable({ keyOf, exists, secret: new Uint8Array(32).fill(1), clock });
  let nonces = 0;
  const request = (of: Request): Uint8Array => {
    const { from, to, epoch = 1, cookie = NO_COOKIE } = of;
    const nonce = new Uint8Array(16).fill(++nonces);
    return encodeControl({ kind: "register", from, to, epoch, nonce, cookie }, keyOf(from, epoch) ?? NO_KEY);
  };
  const receive = (bytes: Uint8Array, source: UdpEndpoint, to: number): ControlOutcome =>
    table.receive(bytes, { source, to, via: "0.0.0.0" });
  const read = (outcome: ControlOutcome, { from, epoch = 1 }: Request) =>
    openControl(outcome.answer ?? new Uint8Array(), keyOf(from, epoch) ?? NO_KEY);
  /** The cookie that the relay sends to `source`. */
  const cookieFor = (of: Request, source: UdpEndpoint): Uint8Array => {
    const answer = read(receive(request(of), source, of.to), of);
    if (answer?.kind !== "challenge") throw new Error("not challenged");
    return answer.cookie;
  };
  const register = (of: Request, source: UdpEndpoint): ControlOutcome =>
    receive(request({ ...of, cookie: cookieFor(of, source) }), source, of.to);
  return { clock, table, request, receive, read, cookieFor, register };
}

interface Request {
  readonly from: number;
  readonly to: number;
  readonly epoch?: number;
  readonly cookie?: Uint8Array;
}

const PAIR = { from: 1, to: 2 } as const;

describe("a relay's table of registrations", () => {
  it("learns the address of a gateway that repeats the cookie sent there, and answers with the address", () => {
    const { register, read, table } = world();
    const outcome = register(PAIR, HOME);
    expect(outcome.result).toBe("registered");
    expect(outcome.changes).toMatchObject([
      { before: undefined, after: { ...PAIR, parity: 1, source: HOME } },
    ]);
    expect(read(outcome, PAIR)).toMatchObject({ kind: "registered", observed: HOME, lifetimeSeconds: 180 });
    expect([...table.list()]).toHaveLength(1);
  });

  it("routes datagrams once both gateways of a pair have registered, and only from where they did", () => {
    const { register, table } = world();
    register(PAIR, HOME);
    expect(table.routeOf(2, HOME)).toBeUndefined();
    register({ from: 2, to: 1 }, OTHER);
    expect(table.routeOf(2, HOME)).toMatchObject({ leg: PAIR, target: { source: OTHER } });
    expect(table.routeOf(1, OTHER)).toMatchObject({ leg: { from: 2, to: 1 }, target: { source: HOME } });
    for (const [to, source] of [
      [2, AWAY],
      [2, { ...HOME, port: 4003 }],
      [3, HOME],
    ] as const)
      expect(table.routeOf(to, source)).toBeUndefined();
  });

  it("keeps the keys' epochs apart", () => {
    const { register, table } = world();
    register(PAIR, HOME);
    register({ ...PAIR, epoch: 2 }, { ...HOME, port: 5001 });
    register({ from: 2, to: 1, epoch: 2 }, OTHER);
    expect(table.routeOf(2, HOME)).toBeUndefined();
    expect(table.routeOf(2, { ...HOME, port: 5001 })).toMatchObject({ target: { source: OTHER } });
  });

  it("does not answer what is forged, for another port, for itself, or of an unknown gateway or epoch", () => {
    const { request, receive } = world();
    const forged = request(PAIR);
    forged[60] = (forged[60] ?? 0) ^ 1;
    for (const [bytes, to] of [
      [forged, 2],
      [request(PAIR), 3],
      [request({ from: 2, to: 2 }), 2],
      [request({ from: 11, to: 2 }), 2],
      [request({ ...PAIR, epoch: 3 }), 2],
      [request(PAIR).subarray(1), 2],
    ] as const) {
      const outcome = receive(bytes, HOME, to);
      expect(outcome).toEqual({ result: "refused", changes: [] });
    }
  });

  it("moves a gateway to no address but that from which its cookie comes back", () => {
    const { register, request, receive, cookieFor, table } = world();
    register(PAIR, HOME);
    // Replayed from elsewhere, with or without a cookie; and a cookie that was sent to another address.
    const recorded = request({ ...PAIR, cookie: cookieFor(PAIR, AWAY) });
    for (const [bytes, source] of [
      [request(PAIR), AWAY],
      [recorded, { ...AWAY, port: 4010 }],
      [recorded, OTHER],
    ] as const) {
      const outcome = receive(bytes, source, 2);
      expect(outcome).toMatchObject({ result: "challenged", changes: [] });
      expect(outcome.answer?.length).toBe(bytes.length);
    }
    expect([...table.list()]).toMatchObject([{ source: HOME }]);
    expect(receive(recorded, AWAY, 2).result).toBe("registered");
    expect([...table.list()]).toMatchObject([{ source: AWAY }]);
    expect(table.routeOf(2, HOME)).toBeUndefined();
  });

  it("cannot be moved back by a replay of what came from the earlier address", () => {
    const { register, request, receive, cookieFor, table } = world();
    const recorded = request({ ...PAIR, cookie: cookieFor(PAIR, HOME) });
    expect(receive(recorded, HOME, 2).result).toBe("registered");
    expect(receive(recorded, HOME, 2).result).toBe("renewed");
    register(PAIR, AWAY);
    expect(receive(recorded, HOME, 2).result).toBe("challenged");
    expect([...table.list()]).toMatchObject([{ source: AWAY }]);
  });

  it("accepts a cookie for one to two minutes", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 200_000 }),
        fc.integer({ min: 0, max: 59_999 }),
        async (waitMs, startMs) => {
          const { clock, request, receive, cookieFor } = world();
          await clock.advance(startMs);
          const cookie = cookieFor(PAIR, HOME);
          await clock.advance(waitMs);
          const { result } = receive(request({ ...PAIR, cookie }), HOME, 2);
          if (waitMs < 60_000) expect(result).toBe("registered");
          if (waitMs >= 120_000) expect(result).toBe("challenged");
        },
      ),
    );
  });

  it("forgets what is not renewed, and gateways that do not exist any more", async () => {
    const { clock, register, table } = world();
    const all = (): boolean => true;
    register(PAIR, HOME);
    await clock.advance(LIFETIME_MS - 1);
    expect(table.sweep(all)).toEqual([]);
    register(PAIR, HOME);
    await clock.advance(LIFETIME_MS - 1);
    expect(table.sweep(all)).toEqual([]);
    await clock.advance(1);
    expect(table.sweep(all)).toMatchObject([{ before: { source: HOME }, after: undefined }]);
    register(PAIR, HOME);
    await clock.advance(LIFETIME_MS);
    // Forwarding shows that it is in use.
    table.touch({ ...PAIR, parity: 1 });
    table.touch({ from: 5, to: 6, parity: 1 });
    expect(table.sweep(all)).toEqual([]);
    expect(table.sweep((index) => index !== 2)).toHaveLength(1);
    expect([...table.list()]).toEqual([]);
  });

  it("gives an address to the gateway that a NAT has given it to", () => {
    const { register, table } = world();
    register(PAIR, HOME);
    const { changes } = register({ from: 3, to: 2 }, HOME);
    expect(changes).toMatchObject([
      { before: PAIR, after: undefined },
      { before: undefined, after: { from: 3, to: 2, source: HOME } },
    ]);
    expect([...table.list()]).toHaveLength(1);
  });

  it("keeps no registration for a gateway that does not exist, and no number of one takes another's leg", () => {
    const { register, request, receive, table } = world();
    register({ from: 3, to: 5 }, HOME);
    // Numbers of a frame over TLS have 15 bits: these would fill the bits of the other gateway.
    for (const to of [10, MAX_INDEX, (3 << 10) | 5, 2 ** 15 - 1])
      for (const from of [0, 1, 2])
        expect(receive(request({ from, to }), AWAY, to)).toEqual({ result: "refused", changes: [] });
    expect([...table.list()]).toMatchObject([{ from: 3, to: 5, source: HOME }]);
  });

  it("moves the registrations of one gateway a few times a second at most, and those of others as before", async () => {
    const { clock, register, table } = world();
    const flood = (times: number): number =>
      Array.from({ length: times }, (_, at) => register(PAIR, { ...HOME, port: 1 + at })).filter(
        ({ changes }) => changes.length > 0,
      ).length;
    expect(flood(2100)).toBe(2048);
    await clock.advance(1000);
    expect(flood(50)).toBe(35);
    expect(table.size).toBe(1);
    expect(register({ from: 3, to: 2 }, OTHER).result).toBe("registered");
    expect(register({ from: 2, to: 3 }, AWAY).result).toBe("registered");
    expect(table.routeOf(2, OTHER)).toMatchObject({ target: { source: AWAY } });
  });

  it("after any registrations, finds each by its address, and no two by the same", () => {
    const request = fc.record({ from: fc.nat(3), to: fc.nat(3), epoch: fc.integer({ min: 1, max: 2 }) });
    const source = fc.record({
      address: fc.constantFrom("192.0.2.1", "192.0.2.2"),
      port: fc.integer({ min: 1, max: 3 }),
    });
    fc.assert(
      fc.property(fc.array(fc.tuple(request, source), { maxLength: 30 }), (steps) => {
        const { register, table } = world();
        for (const [of, from] of steps) {
          if (of.from === of.to) continue;
          const isThere = [...table.list()].some(
            (it) =>
              legId(it) === legId({ ...of, parity: of.epoch % 2 }) &&
              it.source.address === from.address &&
              it.source.port === from.port,
          );
          if (!isThere) register(of, from);
        }
        const list = [...table.list()];
        const keys = list.map(({ to, source: { address, port } }) => `${to} ${address} ${port}`);
        expect(new Set(keys).size).toBe(keys.length);
        for (const it of list) {
          const back = list.find(
            (other) => legId(other) === legId({ from: it.to, to: it.from, parity: it.parity }),
          );
          const route = table.routeOf(it.to, it.source);
          expect(route?.target).toEqual(back);
        }
      }),
    );
  });
});

it("a leg and its number stand for each other", () => {
  const index = fc.nat(MAX_INDEX);
  fc.assert(
    fc.property(index, index, fc.nat(1), (from, to, parity) => {
      expect(legOf(legId({ from, to, parity }))).toEqual({ from, to, parity });
    }),
  );
  for (const wrong of [0, 1, 2 ** 21 - 1, 2 ** 22, -1, Number.NaN]) expect(legOf(wrong)).toBeUndefined();
});
