import { createSocket, type Socket } from "node:dgram";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { nextTurn } from "@fairlead/base/turn.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { generateKeyPair, publicKeyOf } from "@fairlead/os/wireguard/keys.ts";
import { NO_COOKIE, encodeControl } from "#dataplane/control/datagram.ts";
import { controlKey } from "#dataplane/control/keys.ts";
import { RelayRegistration } from "#dataplane/control/registration.ts";
import { startRelay } from "./relay.ts";
import { sendBounded } from "./sockets.ts";
import { createUserspaceForwarder } from "./userspace-forwarder.ts";

/** A loopback address of this file, so that its ports are. */
const HOST = "127.84.0.1";
/** Bytes per second, of a clock that does not advance: what a leg may send in all. */
const LIMIT = 65_536;
/** Of each kind. */
const FLOOD = 6000;
/** Between two turns of the loop, in which the relay reads. */
const BURST = 100;
/** Turns of the loop for one answer, and datagrams that may be lost one after the other. */
const TURNS = 100;
const ATTEMPTS = 100;
const WIREGUARD_DATA = 4;

const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;
const metrics = createMetrics();
const relayKey = generateKeyPair().privateKey;
const keys = [0, 1, 2, 3].map(() => generateKeyPair().privateKey);
let basePort: number;
let logged = 0;

interface Peer {
  readonly socket: Socket;
  readonly arrived: Buffer[];
}

async function open(): Promise<Peer> {
  const socket = createSocket("udp4");
  const arrived: Buffer[] = [];
  socket.on("message", (bytes) => arrived.push(bytes));
  await new Promise<void>((resolve) => {
    socket.bind(0, HOST, resolve);
  });
  stack.defer(() => void socket.close());
  return { socket, arrived };
}

function registration(from: number, to: number): RelayRegistration {
  const key = controlKey("relay", keys[from] ?? "", publicKeyOf(relayKey));
  return new RelayRegistration({ from, to, epoch: 1, key, nonce: () => randomBytes(16) });
}

/** Sends until there is an answer: datagrams may be lost. */
async function ask<T>(send: () => void, answer: () => T | undefined): Promise<T> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    send();
    for (let turn = 0; turn < TURNS; turn += 1) {
      await nextTurn();
      const found = answer();
      if (found !== undefined) return found;
    }
  }
  throw new Error(`no answer to ${ATTEMPTS} datagrams`);
}

async function register({ socket, arrived }: Peer, from: number, to: number): Promise<void> {
  const own = registration(from, to);
  let request = own.request();
  await ask(
    () => socket.send(request, basePort + to, HOST),
    () => {
      for (const bytes of arrived.splice(0)) {
        const answer = own.receive(bytes);
        if (answer !== undefined && "observed" in answer) return answer;
        if (answer !== undefined) request = answer.send;
      }
      return undefined;
    },
  );
}

async function value(name: string, labels = ""): Promise<number> {
  const line = (await metrics.render()).split("\n").find((it) => it.startsWith(`${name}${labels} `));
  return Number(line?.split(" ").at(-1) ?? 0);
}

let quiet: readonly [Peer, Peer];
let greedy: readonly [Peer, Peer];

beforeAll(async () => {
  basePort = await freePort();
  const clock = new FakeClock();
  const log = createLogger("test", "silent");
  const deps = { ...systemDeps({ ...log, info: () => void (logged += 1) }, metrics), clock };
  const relay = stack.use(
    await startRelay(
      {
        privateKey: relayKey,
        secret: randomBytes(32),
        basePort,
        // This machine does not have the second one, as "::" is where there is no IPv6.
        listen: [HOST, "192.0.2.1"],
        forwarder: (table, send) => createUserspaceForwarder({ table, send, legLimit: LIMIT, clock }),
      },
      deps,
      signal,
    ),
  );
  const gateways = keys.map((key, index) => ({
    name: `gateway-${index}`,
    index,
    keys: [{ epoch: 1, publicKey: publicKeyOf(key) }],
  }));
  await relay.setGateways(gateways);
  quiet = [await open(), await open()];
  greedy = [await open(), await open()];
  await register(quiet[0], 2, 3);
  await register(quiet[1], 3, 2);
  await register(greedy[0], 0, 1);
  await register(greedy[1], 1, 0);
});
afterAll(() => stack.disposeAsync());

/** Sends `FLOOD` datagrams to the ports of all gateways, and after each burst one of the quiet pair, which has to arrive. */
async function flood(socket: Socket, payloads: readonly Uint8Array[]): Promise<void> {
  for (let sent = 0; sent < FLOOD;) {
    for (const end = sent + BURST; sent < end; sent += 1) {
      const port = basePort + (Math.floor(sent / payloads.length) % keys.length);
      socket.send(payloads[sent % payloads.length] ?? "", port, HOST);
    }
    const own = Buffer.concat([Buffer.from([WIREGUARD_DATA]), randomBytes(16)]);
    await ask(
      () => quiet[0].socket.send(own, basePort + 3, HOST),
      () => quiet[1].arrived.find((it) => it.equals(own)),
    );
    quiet[1].arrived.length = 0;
  }
}

it("strangers get no answer of a relay that forwards by its own sockets, and others' datagrams arrive in the meantime", async () => {
  const stranger = await open();
  const forged = encodeControl(
    { kind: "register", from: 0, to: 1, epoch: 1, nonce: randomBytes(16), cookie: NO_COOKIE },
    controlKey("relay", generateKeyPair().privateKey, publicKeyOf(relayKey)),
  );
  const before = await value("fairlead_relay_registrations");
  const lines = logged;
  await flood(stranger.socket, [
    forged,
    Buffer.concat([Buffer.from([WIREGUARD_DATA]), randomBytes(31)]),
    randomBytes(1400),
    Buffer.alloc(0),
    Buffer.from([0xf1]),
  ]);
  expect(await value("fairlead_relay_control_datagrams_total", '{result="refused"}')).toBeGreaterThan(0);
  expect(stranger.arrived).toHaveLength(0);
  expect(await value("fairlead_relay_registrations")).toBe(before);
  expect(logged).toBe(lines);
});

it("a gateway that floods sends no more than its limit, and others' datagrams arrive in the meantime", async () => {
  greedy[1].arrived.length = 0;
  const data = Buffer.concat([Buffer.from([WIREGUARD_DATA]), randomBytes(999)]);
  await flood(greedy[0].socket, [data]);
  expect(greedy[1].arrived.length).toBeGreaterThan(0);
  expect(greedy[1].arrived.length).toBeLessThanOrEqual(LIMIT / data.length);
});

it("a registration that is replayed from elsewhere gets as much as it sends, and moves nothing", async () => {
  const elsewhere = await open();
  const recorded = registration(0, 1).request();
  const [before, lines] = [await value("fairlead_relay_registrations"), logged];
  await flood(elsewhere.socket, [recorded]);
  expect(elsewhere.arrived.length).toBeGreaterThan(0);
  expect(elsewhere.arrived.length).toBeLessThanOrEqual(FLOOD);
  expect(new Set(elsewhere.arrived.map((it) => it.length))).toEqual(new Set([recorded.length]));
  expect(await value("fairlead_relay_registrations")).toBe(before);
  expect(logged).toBe(lines);
});

it("a datagram that waits for a slow link takes no memory beyond a bound", () => {
  let queued = 0;
  const slow = {
    getSendQueueSize: () => queued,
    send: (payload: Uint8Array) => void (queued += payload.length),
  };
  for (let sent = 0; sent < 1000; sent += 1)
    sendBounded(slow, Buffer.alloc(1400), { address: HOST, port: 9 });
  expect(queued).toBeLessThanOrEqual(256 * 1024 + 1400);
});
