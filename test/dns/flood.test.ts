import { createSocket, type Socket } from "node:dgram";
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "vitest";
import { nextTurn } from "@fairlead/base/turn.ts";
import type { Forward } from "@fairlead/dns/resolver.ts";
import type { DnsServer } from "@fairlead/dns/server.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { RCODE, TYPE } from "@fairlead/dns/wire/types.ts";
import { type Census, takeCensus } from "../support/census.ts";
import { serve } from "../support/dns-harness.ts";

const QUERIES = process.env["TEST_SIZE"] === "full" ? 1_000_000 : 10_000;
/** Of the hostile client for each one of another client. */
const BURST = 100;
/** Turns of the loop for one answer, and datagrams that may be lost one after the other. */
const TURNS = 100;
const ATTEMPTS = 100;

let census: Census;
let stack: AsyncDisposableStack;
beforeEach(() => {
  census = takeCensus();
  stack = new AsyncDisposableStack();
});
afterEach(async () => {
  await stack.disposeAsync();
  census[Symbol.dispose]();
});

interface Client {
  readonly socket: Socket;
  readonly answers: Buffer[];
}

async function client(address: string): Promise<Client> {
  const socket = createSocket("udp4");
  const answers: Buffer[] = [];
  socket.on("message", (bytes) => answers.push(bytes));
  await new Promise<void>((resolve) => {
    socket.bind(0, address, resolve);
  });
  stack.defer(() => void socket.close());
  return { socket, answers };
}

async function start(forwards: readonly Forward[] = []): Promise<DnsServer> {
  const tree = new RecordTree();
  tree.addZone({ origin: "zone.", negativeTtl: 5, serial: 1 });
  tree.put("a", { records: [{ name: "a.zone.", class: 1, ttl: 5, data: { type: "A", address: 1 } }] });
  return stack.use(await serve(tree, { forwards }));
}

function query(id: number, name: string): Buffer {
  return encodeMessage({
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
}

/** Asks until there is an answer: datagrams may be lost. */
async function ask({ socket, answers }: Client, port: number): Promise<number> {
  answers.length = 0;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    socket.send(query(attempt, "a.zone."), port, "127.0.0.1");
    for (let turn = 0; turn < TURNS; turn += 1) {
      await nextTurn();
      const [answer] = answers;
      if (answer !== undefined) return decodeMessage(answer).rcode;
    }
  }
  throw new Error(`no answer to ${ATTEMPTS} queries`);
}

const HEADER = Buffer.from([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
const QUESTION_END = Buffer.from([0, 1, 0, 1]);
/** An OPT record with a payload of the wrong length, and one with a version that does not exist. */
const withOpt = (id: number, options: Buffer): Buffer => {
  const bytes = Buffer.concat([query(id, "a.zone."), Buffer.from([0, 0, 41, 255, 255, 0, 7, 0, 0]), options]);
  bytes.writeUInt16BE(1, 10);
  return bytes;
};
const HOSTILE: readonly ((at: number) => Buffer)[] = [
  (at) => query(at & 0xffff, `n${at}.zone.`),
  (at) => query(at & 0xffff, `n${at}.elsewhere.`),
  () => randomBytes(40),
  // A pointer to itself, and two that point to each other.
  () => Buffer.concat([HEADER, Buffer.from([0xc0, 12]), QUESTION_END]),
  () => Buffer.concat([HEADER, Buffer.from([0xc0, 14, 0xc0, 12]), QUESTION_END]),
  (at) => withOpt(at & 0xffff, Buffer.from([0xff, 0xff])),
  (at) => withOpt(at & 0xffff, Buffer.from([0, 4, 0, 10, 0xff, 0xff])),
  () => Buffer.alloc(0),
  () => Buffer.concat([HEADER, Buffer.alloc(1400, 63)]),
];

it("hostile queries of one client leave nothing behind, and another client is answered all the time", async () => {
  const server = await start();
  const port = server.addresses[0]?.port ?? 0;
  const [hostile, other] = [await client("127.0.0.1"), await client("127.0.0.2")];
  let before: ReadonlyMap<string, number> | undefined;
  for (let sent = 0; sent < QUERIES;) {
    for (const end = sent + BURST; sent < end; sent += 1)
      hostile.socket.send(HOSTILE[sent % HOSTILE.length]?.(sent) ?? "", port, "127.0.0.1");
    expect(await ask(other, port)).toBe(RCODE.NOERROR);
    hostile.answers.length = 0;
    before ??= await census.entries();
  }
  const grown = [...(await census.entries())].filter(
    ([line, entries]) => entries - (before?.get(line) ?? 0) >= BURST,
  );
  expect(grown).toEqual([]);
});

it("queries of one client that wait for a silent server leave room for another client", async () => {
  let waiting = 0;
  const silent: Forward = {
    domain: "silent.",
    ask() {
      waiting += 1;
      return new Promise(() => {});
    },
  };
  const server = await start([silent]);
  const port = server.addresses[0]?.port ?? 0;
  const [hostile, other] = [await client("127.0.0.1"), await client("127.0.0.2")];
  for (let sent = 0; sent < 4000;) {
    for (const end = sent + BURST; sent < end; sent += 1)
      hostile.socket.send(query(sent, "a.silent."), port, "127.0.0.1");
    expect(await ask(other, port)).toBe(RCODE.NOERROR);
  }
  expect(waiting).toBeGreaterThan(0);
  expect(waiting).toBeLessThanOrEqual(1024);
});
