/** Signatures of dynamic updates (RFC 8945), by each way over which a DNS message comes. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { signMessage, type TsigKey } from "@fairlead/dns/wire/tsig.ts";
import { CLASS, type Message, OPCODE, RCODE, TYPE } from "@fairlead/dns/wire/types.ts";
import { Primary } from "@fairlead/fleet/hub/traffic-manager/providers/rfc2136/exchange.ts";
import { serve } from "../support/dns-harness.ts";

const KEY: TsigKey = { name: "fleet.", secret: Buffer.alloc(32, 1) };
const ZONE = { name: "zone.", type: TYPE.SOA, class: CLASS.IN };
const RECORD = {
  name: "new.zone.",
  class: CLASS.IN,
  ttl: 60,
  data: { type: "A", address: 0x0102_0304 } as const,
};
const UPDATE: Message = {
  id: 4711,
  response: false,
  opcode: OPCODE.UPDATE,
  authoritative: false,
  truncated: false,
  recursionDesired: false,
  recursionAvailable: false,
  authenticData: false,
  checkingDisabled: false,
  rcode: RCODE.NOERROR,
  questions: [ZONE],
  answers: [],
  authorities: [RECORD],
  additionals: [],
};
const QUERY: Message = {
  ...UPDATE,
  opcode: OPCODE.QUERY,
  questions: [{ name: RECORD.name, type: TYPE.A, class: CLASS.IN }],
  authorities: [],
};
const never = new AbortController().signal;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

function framed(bytes: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

async function overUdp(port: number, bytes: Buffer): Promise<Message> {
  const socket = createSocket("udp4");
  stack.defer(() => void socket.close());
  socket.send(bytes, port, "127.0.0.1");
  const [answer] = (await once(socket, "message")) as [Buffer];
  return decodeMessage(answer);
}

async function overTcp(port: number, bytes: Buffer): Promise<Message> {
  const socket = connect({ host: "127.0.0.1", port });
  stack.defer(() => void socket.destroy());
  socket.write(framed(bytes));
  const [answer] = (await once(socket, "data")) as [Buffer];
  return decodeMessage(answer.subarray(2));
}

describe("the DNS server of the fleet", () => {
  it.each([
    ["UDP", overUdp],
    ["TCP", overTcp],
  ])("takes no update over %s, signed or not", async (_, send) => {
    const tree = new RecordTree();
    tree.addZone({ origin: "zone.", negativeTtl: 5, serial: 1 });
    const server = stack.use(await serve(tree));
    const { port } = server.addresses[0] ?? { port: 0 };
    for (const bytes of [encodeMessage(UPDATE), signMessage(UPDATE, KEY, systemClock.now()).bytes])
      expect(await send(port, bytes)).toMatchObject({ id: UPDATE.id, rcode: RCODE.NOTIMP });
    expect(await send(port, encodeMessage(QUERY))).toMatchObject({ rcode: RCODE.NXDOMAIN, answers: [] });
  });
});

describe("the client of a primary server", () => {
  /** A server that answers over TCP with what `answers` returns, and keeps the datagrams to that port. */
  async function primaryThat(answers: (request: Buffer) => Buffer) {
    const server = createServer((socket: Socket) => {
      let received = Buffer.alloc(0);
      socket.on("error", () => {});
      socket.on("data", (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
        if (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0))
          socket.write(framed(answers(received.subarray(2))));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    stack.defer(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const udp = createSocket("udp4").bind(port, "127.0.0.1");
    await once(udp, "listening");
    stack.defer(() => void udp.close());
    const datagrams: Buffer[] = [];
    udp.on("message", (it) => datagrams.push(it));
    return { primary: new Primary({ host: "127.0.0.1", port, key: KEY }, systemClock), datagrams };
  }

  const answerTo = (request: Buffer, more: Partial<Message> = {}): Message => {
    const { additionals: _signature, ...asked } = decodeMessage(request);
    return { ...asked, response: true, authorities: [], additionals: [], ...more };
  };
  const macOf = (request: Buffer): Buffer => {
    // Of HMAC-SHA256: before the original id, the error and the length of other data.
    const end = request.length - 6;
    return request.subarray(end - 32, end);
  };
  const signed = (request: Buffer, key = KEY, mac: Uint8Array = macOf(request)): Buffer =>
    signMessage(answerTo(request), key, systemClock.now(), mac).bytes;

  const update = { prerequisites: [], changes: [RECORD] };

  it("takes an answer with its signature", async () => {
    const { primary } = await primaryThat((request) => signed(request));
    expect(await primary.update(ZONE, update, never)).toMatchObject({ rcode: RCODE.NOERROR });
  });

  it.each<[string, (request: Buffer) => Buffer]>([
    ["without a signature", (request) => encodeMessage(answerTo(request))],
    ["that is cut, without a signature", (request) => encodeMessage(answerTo(request, { truncated: true }))],
    ["signed with another secret", (request) => signed(request, { ...KEY, secret: Buffer.alloc(32, 2) })],
    ["signed with another key", (request) => signed(request, { ...KEY, name: "other." })],
    ["signed for another request", (request) => signed(request, KEY, Buffer.alloc(32, 3))],
  ])("refuses an answer %s, and asks over UDP in no case", async (_, answers) => {
    const { primary, datagrams } = await primaryThat(answers);
    const refused = { code: "DNS_REFUSED" };
    await expect(primary.update(ZONE, update, never)).rejects.toMatchObject(refused);
    await expect(primary.ask(ZONE, never)).rejects.toMatchObject(refused);
    expect(datagrams).toEqual([]);
  });
});
