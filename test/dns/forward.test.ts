import { createSocket } from "node:dgram";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import { type Message, RCODE, type ResourceRecord, TYPE } from "@fairlead/dns/wire/types.ts";
import { exchange } from "@fairlead/dns/exchange.ts";
import { createForward } from "@fairlead/dns/forward.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { serve } from "../support/dns-harness.ts";

const deps = systemDeps(silentLogger);
const question = { name: "web.fleet.", type: TYPE.A, class: 1 };
const stack: AsyncDisposable[] = [];
const record = (name: string, address: number): ResourceRecord => ({
  name,
  class: 1,
  ttl: 5,
  data: { type: "A", address },
});

afterEach(async () => {
  for (const it of stack.splice(0)) await it[Symbol.asyncDispose]();
});

/** A server that answers each query with the datagrams that `answers` makes of it. */
async function upstream(answers: (query: Message) => readonly Buffer[]) {
  const socket = createSocket("udp4");
  const seen: Message[] = [];
  const ports: number[] = [];
  socket.on("message", (bytes, from) => {
    const query = decodeMessage(bytes);
    seen.push(query);
    ports.push(from.port);
    for (const answer of answers(query)) socket.send(answer, from.port, from.address);
  });
  await new Promise<void>((resolve) => {
    socket.bind(0, "127.0.0.1", resolve);
  });
  const close = () =>
    new Promise<void>((resolve) => {
      socket.close(() => resolve());
    });
  stack.push({ [Symbol.asyncDispose]: () => close().catch(() => {}) });
  return {
    seen,
    ports,
    close,
    server: { host: "127.0.0.1", port: socket.address().port, family: "IPv4" as const },
  };
}

function answerTo(query: Message, more: Partial<Message> = {}): Buffer {
  return encodeMessage({ ...query, response: true, answers: [record("web.fleet.", 1)], ...more });
}

describe("a forward", () => {
  it("asks with an unpredictable port, id and spelling", async () => {
    const { seen, ports, server } = await upstream((query) => [answerTo(query)]);
    const forward = createForward({ domain: "fleet.", servers: [server], maxTtl: 0 }, deps);
    for (let turn = 0; turn < 8; turn++) {
      const name = `host-name-number-${turn}.fleet.`;
      await forward.ask({ ...question, name });
      expect(seen.at(-1)?.questions[0]?.name.toLowerCase()).toBe(name);
    }
    expect(new Set(ports).size).toBeGreaterThan(4);
    expect(new Set(seen.map((it) => it.id)).size).toBeGreaterThan(6);
    expect(seen.some((it) => it.questions[0]?.name !== it.questions[0]?.name.toLowerCase())).toBe(true);
  });

  it("ignores answers to other questions, and waits for its own", async () => {
    const { server } = await upstream((query) => [
      answerTo(query, { id: query.id ^ 1, answers: [record("web.fleet.", 66)] }),
      answerTo(query, {
        questions: [{ ...question, name: "evil.fleet." }],
        answers: [record("web.fleet.", 66)],
      }),
      answerTo(query, {
        questions: query.questions.map((it) => ({ ...it, name: swapCase(it.name) })),
        answers: [record("web.fleet.", 66)],
      }),
      encodeMessage({ ...query, answers: [record("web.fleet.", 66)] }),
      Buffer.from("noise"),
      answerTo(query),
    ]);
    const forward = createForward({ domain: "fleet.", servers: [server] }, deps);
    expect((await forward.ask(question)).answers.map(formatRecord)).toEqual(["web.fleet. 5 IN A 0.0.0.1"]);
  });

  it("forwards the authoritative flag of the server, also from its cache", async () => {
    for (const authoritative of [true, false]) {
      const { seen, server } = await upstream((query) => [answerTo(query, { authoritative })]);
      const forward = createForward({ domain: "fleet.", servers: [server] }, deps);
      const answers = [await forward.ask(question), await forward.ask(question)];
      expect(answers.map((it) => it.authoritative)).toEqual([authoritative, authoritative]);
      expect(seen).toHaveLength(1);
    }
  });

  it("ignores records outside its domain", async () => {
    const { server } = await upstream((query) => [
      answerTo(query, {
        answers: [record("web.fleet.", 1), record("bank.example.", 66)],
        additionals: [record("ns.example.", 66)],
      }),
    ]);
    const forward = createForward({ domain: "fleet.", servers: [server] }, deps);
    const said = await forward.ask(question);
    expect(said.answers.map(formatRecord)).toEqual(["web.fleet. 5 IN A 0.0.0.1"]);
    expect(said.additionals).toEqual([]);
  });

  it("sends equal pending questions once, and repeats them only when the answer has expired", async () => {
    const { seen, server } = await upstream((query) => [answerTo(query)]);
    const forward = createForward({ domain: "fleet.", servers: [server] }, deps);
    await Promise.all([1, 2, 3].map(async () => forward.ask(question)));
    await forward.ask({ ...question, name: "WEB.fleet." });
    expect(seen).toHaveLength(1);
  });

  it("tries the next server when one is down or fails", async () => {
    const failing = await upstream((query) => [answerTo(query, { rcode: RCODE.SERVFAIL, answers: [] })]);
    const working = await upstream((query) => [answerTo(query)]);
    const closed = { host: "127.0.0.1", port: 1, family: "IPv4" as const };
    const servers = [closed, failing.server, working.server];
    const forward = createForward({ domain: "fleet.", servers }, deps);
    expect((await forward.ask(question)).answers).toHaveLength(1);
  });

  it("gives the last good answer while its server is away, and SERVFAIL for what it never knew", async () => {
    const { server, close } = await upstream((query) => [answerTo(query)]);
    const forward = createForward({ domain: "fleet.", servers: [server], maxTtl: 0 }, deps);
    await forward.ask(question);
    await close();
    const stale = await forward.ask(question);
    expect(stale.answers.map(formatRecord)).toEqual(["web.fleet. 1 IN A 0.0.0.1"]);
    expect((await forward.ask({ ...question, name: "new.fleet." })).rcode).toBe(RCODE.SERVFAIL);
  });

  it("gives up on a silent server in bounded time", async () => {
    const { server, seen } = await upstream(() => []);
    const forward = createForward({ domain: "fleet.", servers: [server], timeoutMs: 20, rounds: 3 }, deps);
    expect((await forward.ask(question)).rcode).toBe(RCODE.SERVFAIL);
    expect(seen).toHaveLength(3);
  });

  it("fetches over TCP what does not fit over UDP", async () => {
    const tree = new RecordTree();
    tree.addZone({ origin: "fleet.", negativeTtl: 5, serial: 1 });
    tree.put("web", { records: Array.from({ length: 300 }, (_, address) => record("web.fleet.", address)) });
    const server = await serve(tree);
    stack.push(server);
    for (const address of server.addresses) {
      const forward = createForward({ domain: "fleet.", servers: [address] }, deps);
      expect((await forward.ask(question)).answers).toHaveLength(300);
    }
  });

  it("has precedence over the zones of the server when its domain is inside of them", async () => {
    const { server: fleet } = await upstream((query) => [answerTo(query)]);
    const tree = new RecordTree();
    tree.addZone({ origin: ".", negativeTtl: 5, serial: 1 });
    const server = await serve(tree, {
      forwards: [createForward({ domain: "fleet.", servers: [fleet] }, deps)],
    });
    stack.push(server);
    const ask = (name: string) =>
      exchange({ ...question, name }, { server: server.addresses[0]!, timeoutMs: 5000, clock: systemClock });
    expect((await ask("web.fleet.")).answers).toHaveLength(1);
    expect((await ask("web.elsewhere.")).rcode).toBe(RCODE.NXDOMAIN);
  });
});

function swapCase(name: string): string {
  return name
    .split("")
    .map((it) => (it === it.toLowerCase() ? it.toUpperCase() : it.toLowerCase()))
    .join("");
}
