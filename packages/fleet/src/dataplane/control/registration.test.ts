import { createSecretKey } from "node:crypto";
import { expect, it } from "vitest";
import { encodeControl, openControl } from "./datagram.ts";
import { answerProbe, Prober } from "./probe.ts";
import { RelayRegistration } from "./registration.ts";

const KEY = createSecretKey(Buffer.alloc(32, 7));
const PAIR = { from: 3, to: 9, epoch: 2, key: KEY };
const COOKIE = new Uint8Array(16).fill(5);
const OBSERVED = { address: "192.0.2.1", port: 4711 };

/** Nonces that differ at each call. */
function counter(): () => Uint8Array {
  let last = 0;
  return () => new Uint8Array(16).fill(++last);
}

/** An answer of the relay to `request`. */
function answer(request: Uint8Array, kind: "challenge" | "registered", change: object = {}): Uint8Array {
  const asked = openControl(request, KEY);
  if (asked?.kind !== "register") throw new Error("not a registration");
  const { from, to, epoch, nonce } = asked;
  const rest =
    kind === "challenge" ? { kind, cookie: COOKIE } : { kind, observed: OBSERVED, lifetimeSeconds: 180 };
  return encodeControl({ from, to, epoch, nonce, ...rest, ...change }, KEY);
}

it("a registration answers a challenge with its cookie, and learns the address that the relay saw", () => {
  const registration = new RelayRegistration({ ...PAIR, nonce: counter() });
  const first = registration.request();
  expect(registration.request()).toEqual(first);
  const next = registration.receive(answer(first, "challenge"));
  if (next === undefined || !("send" in next)) throw new Error("no answer");
  expect(openControl(next.send, KEY)).toMatchObject({ kind: "register", cookie: COOKIE });
  expect(registration.receive(answer(next.send, "registered"))).toEqual({
    observed: OBSERVED,
    lifetimeSeconds: 180,
  });
  // The next one has the cookie at once.
  expect(openControl(registration.request(), KEY)).toMatchObject({ cookie: COOKIE });
});

it("a registration ignores answers that are forged, replayed, or for another pair or epoch", () => {
  const registration = new RelayRegistration({ ...PAIR, nonce: counter() });
  const request = registration.request();
  for (const change of [{ from: 4 }, { to: 8 }, { epoch: 3 }, { nonce: new Uint8Array(16) }])
    expect(registration.receive(answer(request, "registered", change))).toBeUndefined();
  const forged = answer(request, "registered");
  forged[20] = (forged[20] ?? 0) ^ 1;
  expect(registration.receive(forged)).toBeUndefined();
  expect(registration.receive(request)).toBeUndefined();
  const real = answer(request, "registered");
  expect(registration.receive(real)).toBeDefined();
  expect(registration.receive(real)).toBeUndefined();
});

it("a probe is answered with the source that was seen, and each answer counts once", () => {
  const prober = new Prober<string>({ ...PAIR, nonce: counter() });
  const probe = prober.request("candidate 1");
  const other = { from: PAIR.to, to: PAIR.from, epoch: PAIR.epoch, key: KEY };
  const reply = answerProbe(probe, other, OBSERVED);
  if (reply === undefined) throw new Error("no reply");
  expect(reply.length).toBe(probe.length);
  expect(prober.receive(reply)).toEqual({ tag: "candidate 1", observed: OBSERVED });
  expect(prober.receive(reply)).toBeUndefined();
});

it("a probe for another gateway, of another epoch or with a wrong key is not answered", () => {
  const probe = new Prober<undefined>({ ...PAIR, nonce: counter() }).request(undefined);
  const other = { from: PAIR.to, to: PAIR.from, epoch: PAIR.epoch, key: KEY };
  for (const change of [{ from: 8 }, { to: 4 }, { epoch: 3 }, { key: createSecretKey(Buffer.alloc(32)) }])
    expect(answerProbe(probe, { ...other, ...change }, OBSERVED)).toBeUndefined();
});

it("probes without an answer are forgotten, oldest first", () => {
  const prober = new Prober<number>({ ...PAIR, nonce: counter() });
  const probes = Array.from({ length: 65 }, (_, at) => prober.request(at));
  const other = { from: PAIR.to, to: PAIR.from, epoch: PAIR.epoch, key: KEY };
  const tags = probes.map((it) => prober.receive(answerProbe(it, other, OBSERVED) ?? it)?.tag);
  expect(tags[0]).toBeUndefined();
  expect(tags.slice(1)).toEqual(probes.map((_, at) => at).slice(1));
});
