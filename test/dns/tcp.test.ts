import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { type Message, RCODE, type ResourceRecord, TYPE } from "@fairlead/dns/wire/types.ts";
import { failure, type Forward } from "@fairlead/dns/resolver.ts";
import { type DnsServer, startDnsServer } from "@fairlead/dns/server.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { serve } from "../support/dns-harness.ts";

let server: DnsServer | undefined;
let sockets: Socket[] = [];

beforeEach(() => {
  sockets = [];
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await server?.[Symbol.asyncDispose]();
  server = undefined;
});

function treeOf(): RecordTree {
  const tree = new RecordTree();
  tree.addZone({ origin: "zone.", negativeTtl: 5, serial: 1 });
  const data = { type: "A", address: 1 } as const;
  const records = ["a.zone.", "b.zone.", "c.zone."].map((name): ResourceRecord => ({
    name,
    class: 1,
    ttl: 5,
    data,
  }));
  tree.put("all", { records });
  return tree;
}

function framed(id: number, name: string): Buffer {
  const wire = encodeMessage({
    id,
    response: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name, type: TYPE.A, class: 1 }],
    answers: [],
    authorities: [],
    additionals: [],
  });
  const length = Buffer.alloc(2);
  length.writeUInt16BE(wire.length);
  return Buffer.concat([length, wire]);
}

/** A connection, the answers it got, and whether it was closed. */
function open(to: DnsServer, localAddress?: string) {
  const { host, port } = to.addresses[0]!;
  const socket = connect({
    host,
    port,
    noDelay: true,
    ...(localAddress === undefined ? {} : { localAddress }),
  });
  sockets.push(socket);
  const state = { socket, answers: [] as Message[], isClosed: false };
  let received = Buffer.alloc(0);
  socket.on("error", () => {});
  socket.on("close", () => {
    state.isClosed = true;
  });
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      const end = 2 + received.readUInt16BE(0);
      state.answers.push(decodeMessage(received.subarray(2, end)));
      received = received.subarray(end);
    }
  });
  return state;
}

const ids = (answers: readonly Message[]) => answers.map((it) => it.id).toSorted((a, b) => a - b);

describe("DNS over TCP", () => {
  it("answers many queries on one connection, however the bytes are cut", async () => {
    server = await serve(treeOf());
    const connection = open(server);
    const bytes = Buffer.concat([framed(1, "a.zone."), framed(2, "b.zone."), framed(3, "no.zone.")]);
    for (const byte of bytes) connection.socket.write(Buffer.from([byte]));
    await expect.poll(() => ids(connection.answers)).toEqual([1, 2, 3]);
    connection.socket.write(bytes);
    await expect.poll(() => connection.answers.length).toBe(6);
    expect(connection.answers[2]?.rcode).toBe(RCODE.NXDOMAIN);
  });

  it("answers known names while a forward is pending, and limits pending queries", async () => {
    const gate = Promise.withResolvers<void>();
    let asked = 0;
    const slow: Forward = {
      domain: "slow.",
      async ask() {
        asked++;
        await gate.promise;
        return failure(RCODE.NOERROR);
      },
    };
    server = await serve(treeOf(), { forwards: [slow] });
    const connection = open(server);
    connection.socket.write(Buffer.concat([framed(1, "x.slow."), framed(2, "a.zone.")]));
    await expect.poll(() => ids(connection.answers)).toEqual([2]);
    connection.socket.write(
      Buffer.concat(Array.from({ length: 99 }, (_, at) => framed(100 + at, "x.slow."))),
    );
    await expect.poll(() => asked).toBe(32);
    gate.resolve();
    await expect.poll(() => connection.answers.length).toBe(101);
  });

  it("closes a connection without a complete query in time", async () => {
    server = await serve(treeOf(), { tcpIdleMs: 50 });
    const silent = open(server);
    const slow = open(server);
    slow.socket.write(framed(1, "a.zone.").subarray(0, 5));
    await expect.poll(() => [silent.isClosed, slow.isClosed]).toEqual([true, true]);
  });

  it("closes the connection that was silent longest when there are too many", async () => {
    server = await serve(treeOf(), { maxTcpConnections: 3 });
    const first = open(server);
    const second = open(server);
    first.socket.write(framed(1, "a.zone."));
    second.socket.write(framed(2, "a.zone."));
    await expect.poll(() => [first.answers.length, second.answers.length]).toEqual([1, 1]);
    const third = open(server);
    third.socket.write(framed(3, "a.zone."));
    await expect.poll(() => third.answers.length).toBe(1);
    first.socket.write(framed(4, "a.zone."));
    await expect.poll(() => first.answers.length).toBe(2);
    const fourth = open(server);
    fourth.socket.write(framed(5, "a.zone."));
    await expect.poll(() => fourth.answers.length).toBe(1);
    expect([first, second, third].map((it) => it.isClosed)).toEqual([false, true, false]);
  });

  it("answers a client while another one has all the connections that it can open", async () => {
    const running = await serve(treeOf(), { maxTcpConnections: 64 });
    server = running;
    const patient = open(server, "127.0.0.2");
    patient.socket.write(framed(1, "a.zone."));
    await expect.poll(() => patient.answers.length).toBe(1);
    const many = Array.from({ length: 100 }, () => open(running));
    await expect.poll(() => many.filter((it) => !it.isClosed).length).toBe(16);
    patient.socket.write(framed(2, "a.zone."));
    await expect.poll(() => patient.answers.length).toBe(2);
    const late = open(server);
    late.socket.write(framed(3, "a.zone."));
    await expect.poll(() => late.answers.length).toBe(1);
    expect(patient.isClosed).toBe(false);
  });

  it.each([
    ["a length that no query has", Buffer.from([0xff, 0xff, 0, 0])],
    ["an empty message", Buffer.from([0, 0])],
    ["an answer", Buffer.concat([Buffer.from([0, 12]), Buffer.from([0, 1, 0x80]), Buffer.alloc(9)])],
  ])("closes a connection on %s", async (_, bytes) => {
    server = await serve(treeOf());
    const connection = open(server);
    connection.socket.write(bytes);
    await expect.poll(() => connection.isClosed).toBe(true);
  });

  it("rejects an address that it cannot listen on, and closes the others", async () => {
    server = await serve(treeOf());
    const [taken] = server.addresses;
    const options = { respond: () => undefined, clock: systemClock, log: silentLogger };
    await expect(startDnsServer({ listen: [taken!], ...options })).rejects.toMatchObject({
      code: "OPTION_INVALID",
    });
  });
});
