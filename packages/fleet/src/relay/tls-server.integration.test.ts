import { createSecretKey, randomBytes } from "node:crypto";
import {
  connect as connectTcp,
  createServer as createTcpServer,
  type AddressInfo,
  type Socket,
} from "node:net";
import { createServer } from "node:tls";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createLogger } from "@fairlead/base/log.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { issueAuthority } from "@fairlead/base/pki/issue.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { connectRelay } from "#dataplane/control/connect-relay.ts";
import { bindingOf, boundKey, FrameReader, FrameWriter } from "#dataplane/control/frames.ts";
import { RelayRegistration } from "#dataplane/control/registration.ts";
import { TcpTunnel } from "#dataplane/control/tcp-tunnel.ts";
import { RegistrationTable } from "./registration-table.ts";
import { serveTls, type TlsServer } from "./tls-server.ts";

const HOST = "127.0.0.1";
/** More than the relay has room for, in full size. */
const CONNECTIONS = process.env["TEST_SIZE"] === "full" ? 5000 : 24;
const FLOW = { from: 1, to: 2, epoch: 1, wireGuardPort: 9, key: createSecretKey(Buffer.alloc(32, 3)) };
const deps = systemDeps(createLogger("test", "silent"));
const signal = new AbortController().signal;

let pair: CertificatePair;
let port: number;
let server: TlsServer;
let table: RegistrationTable;
let results: string[] = [];
const stack = new AsyncDisposableStack();
const ofTest: AsyncDisposable[] = [];

beforeAll(async () => {
  pair = await issueAuthority({ commonName: "relay" });
  port = await freePort();
  table = new RegistrationTable({
    keyOf: () => FLOW.key,
    exists: () => true,
    secret: randomBytes(32),
    clock: systemClock,
  });
  server = stack.use(
    await serveTls({
      ...pair,
      listen: [HOST],
      port,
      log: deps.log,
      onDatagram(payload, at, binding) {
        const { from, result, answer, changes } = table.receive(payload, { ...at, binding });
        results.push(result);
        if (answer !== undefined)
          server.send(answer, at.to, { source: at.source, parity: at.source.port - 1 });
        for (const { before } of changes)
          if (before !== undefined && !table.isUsed(before.source.address))
            server.close(before.source.address);
        return from;
      },
      onClosed: (address) => void table.drop(address),
    }),
  );
});
afterAll(() => stack.disposeAsync());
afterEach(async () => {
  for (const it of ofTest.splice(0)) await it[Symbol.asyncDispose]();
  await expect.poll(() => table.size, { timeout: 10_000 }).toBe(0);
  results = [];
});

function tunnelTo(at: number): TcpTunnel {
  const connect = (by: AbortSignal) => connectRelay(HOST, at, by);
  const tunnel = new TcpTunnel({ connect, nonce: () => randomBytes(16) }, deps);
  ofTest.push(tunnel);
  return tunnel;
}

it("a gateway registers over TLS without knowing the certificate, and its registration ends with the connection", async () => {
  const tunnel = tunnelTo(port);
  await tunnel.open(FLOW);
  await expect.poll(() => tunnel.isRegistered(FLOW.to, FLOW.epoch), { timeout: 10_000 }).toBe(true);
  expect([...table.list()]).toMatchObject([{ from: 1, to: 2, parity: 1, via: "tls" }]);
});

it("a proxy between two TLS connections is not accepted by either end", async () => {
  const between = createServer({ ...pair }, (socket) => {
    void connectRelay(HOST, port, signal).then((onward) => {
      socket.on("error", () => {});
      onward.on("error", () => {});
      return socket.pipe(onward).pipe(socket);
    });
  });
  await new Promise<void>((resolve) => {
    between.listen(0, HOST, resolve);
  });
  ofTest.push({
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => {
        between.close(resolve);
      });
    },
  });
  const tunnel = tunnelTo((between.address() as AddressInfo).port);
  await tunnel.open(FLOW);
  await expect.poll(() => results.length, { timeout: 10_000 }).toBeGreaterThan(0);
  expect(new Set(results)).toEqual(new Set(["refused"]));
  expect(tunnel.isRegistered(FLOW.to, FLOW.epoch)).toBe(false);
});

it("a connection that sends no frames, or frames that are not authentic, is closed", async () => {
  for (const bytes of [
    Buffer.from("GET / HTTP/1.1\r\n\r\n"),
    Buffer.from([0, 1, 0, 2, 4]),
    Buffer.from([0, 1, 0, 2, 0xf1]),
  ]) {
    const socket = await connectRelay(HOST, port, signal);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {});
    socket.resume();
    socket.write(bytes);
    await closed;
  }
});

it("strangers of one address have sixteen connections, and those that are registered count no more", async () => {
  const tunnel = tunnelTo(port);
  await tunnel.open(FLOW);
  await expect.poll(() => tunnel.isRegistered(FLOW.to, FLOW.epoch), { timeout: 10_000 }).toBe(true);
  let open = 0;
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connectTcp(port, HOST);
    open++;
    socket.on("error", () => {});
    socket.once("close", () => open--);
    socket.resume();
    return socket;
  });
  await expect.poll(() => open, { timeout: 10_000 }).toBe(16);
  for (const it of sockets) it.destroy();
  expect(tunnel.isRegistered(FLOW.to, FLOW.epoch)).toBe(true);
});

/** A connection of gateway 1 that registers its leg to `to`; without the last step the relay knows the gateway alone. */
async function registerOnce(to: number, isLastStep = true): Promise<Socket> {
  const socket = await connectRelay(HOST, port, signal);
  const key = boundKey(FLOW.key, bindingOf(socket));
  const registration = new RelayRegistration({ ...FLOW, to, key, nonce: () => randomBytes(16) });
  const writer = new FrameWriter(socket);
  const reader = new FrameReader();
  const send = (payload: Uint8Array): void =>
    void writer.write({ index: to, parity: 1, payload: Buffer.from(payload) });
  const answered = new Promise<void>((resolve) => {
    socket.on("error", () => {});
    socket.once("close", () => resolve());
    socket.on("data", (chunk: Buffer) => {
      for (const { payload } of reader.read(chunk) ?? []) {
        const answer = registration.receive(payload);
        if (answer !== undefined && "send" in answer && isLastStep) send(answer.send);
        else resolve();
      }
    });
  });
  send(registration.request());
  await answered;
  return socket;
}

it.each([
  ["registers the same leg", () => 2, true, 1],
  ["registers many legs", (at: number) => 2 + (at % 500), true, 8],
  ["never completes a registration", () => 2, false, 8],
] as const)(
  "a gateway that %s over many connections keeps few, and another gateway registers",
  async (_, legOf, isLastStep, kept) => {
    const open = new Set<Socket>();
    for (let at = 0; at < CONNECTIONS; at++) {
      const socket = await registerOnce(legOf(at), isLastStep);
      open.add(socket);
      socket.once("close", () => open.delete(socket));
      if (socket.destroyed) open.delete(socket);
    }
    await expect.poll(() => open.size, { timeout: 10_000 }).toBe(kept);
    const tunnel = tunnelTo(port);
    const other = { ...FLOW, from: 3, to: 1 };
    await tunnel.open(other);
    await expect.poll(() => tunnel.isRegistered(other.to, other.epoch), { timeout: 10_000 }).toBe(true);
    for (const it of open) it.destroy();
  },
  120_000,
);

it("a tunnel waits for a relay that is away", async () => {
  const later = await freePort();
  const tunnel = tunnelTo(later);
  await tunnel.open(FLOW);
  const through = createTcpServer((socket) => {
    const onward = connectTcp(port, HOST);
    socket.on("error", () => {});
    onward.on("error", () => {});
    socket.pipe(onward).pipe(socket);
  });
  await new Promise<void>((resolve) => {
    through.listen(later, HOST, resolve);
  });
  await expect.poll(() => tunnel.isRegistered(FLOW.to, FLOW.epoch), { timeout: 20_000 }).toBe(true);
  await tunnel[Symbol.asyncDispose]();
  await new Promise((resolve) => {
    through.close(resolve);
  });
});
