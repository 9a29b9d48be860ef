import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ApiServer } from "#server.ts";
import { startApiServer } from "#server.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { startTestServer } from "./support.ts";

/** How a server ends, and how it does not begin. */

const MAPS = "/api/v1/namespaces/default/configmaps";

interface Running {
  /** Sends the rest of the body. */
  finish(rest: string): void;
  /** The whole answer. */
  readonly answer: Promise<{ readonly code: number; readonly text: string; readonly isComplete: boolean }>;
  /** Once the head of the answer is there. */
  readonly began: Promise<void>;
}

function begin(server: ApiServer, method: string, path: string, body?: string): Running {
  const { port, ca, admin } = server;
  const agent = new Agent({ ca, cert: admin.cert, key: admin.key });
  const headers =
    body === undefined ? {} : { "Content-Type": "application/json", "Transfer-Encoding": "chunked" };
  const outgoing = request({ host: "127.0.0.1", port, method, path, agent, headers });
  const began = Promise.withResolvers<void>();
  const answer = new Promise<Awaited<Running["answer"]>>((resolve, reject) => {
    outgoing.once("error", reject);
    outgoing.once("response", (incoming) => {
      began.resolve();
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.once("close", () => {
        agent.destroy();
        const text = Buffer.concat(chunks).toString();
        resolve({ code: incoming.statusCode ?? 0, text, isComplete: incoming.complete });
      });
    });
  });
  if (body === undefined) outgoing.end();
  else outgoing.write(body);
  return { finish: (rest) => void outgoing.end(rest), answer, began: began.promise };
}

describe("a server that stops", () => {
  it("first becomes unready, and keeps serving for the configured time", async () => {
    const clock = new FakeClock(Date.now());
    await using test = await startTestServer({ clock, shutdownDelayMs: 5000 });
    const closed = test.server.close();
    const ready = await test.call("GET", "/readyz");
    expect(ready.code).toBe(500);
    expect(ready.text).toContain("[-]shutdown failed: reason withheld");
    expect((await test.call("GET", "/livez")).code).toBe(200);
    expect((await test.call("POST", MAPS, { body: { metadata: { name: "late" } } })).code).toBe(201);
    await clock.advance(5000);
    await closed;
    await expect(test.call("GET", "/livez")).rejects.toThrow(/ECONNREFUSED|socket hang up|ECONNRESET/);
  });

  it("answers requests in flight", async () => {
    const received = Promise.withResolvers<void>();
    const audit = { write: (line: string) => (line.includes('"create"') ? received.resolve() : undefined) };
    await using test = await startTestServer({ audit });
    const running = begin(test.server, "POST", MAPS, '{"metadata":');
    await received.promise;
    const closed = test.server.close();
    running.finish('{"name":"slow"}}');
    const { code, isComplete } = await running.answer;
    expect([code, isComplete]).toEqual([201, true]);
    await closed;
  });

  it("ends watches without an error, as after their timeout", async () => {
    await using test = await startTestServer();
    const watch = begin(
      test.server,
      "GET",
      `${MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan`,
    );
    await watch.began;
    await test.call("POST", MAPS, { body: { metadata: { name: "seen" } } });
    await test.server.close();
    const { text, isComplete } = await watch.answer;
    expect(isComplete).toBe(true);
    const types = text
      .trim()
      .split("\n")
      .map((it) => (JSON.parse(it) as { type: string }).type);
    expect(types).toEqual(["ADDED"]);
  });

  it("may be closed twice", async () => {
    const test = await startTestServer();
    await Promise.all([test.server.close(), test.server.close()]);
    await test[Symbol.asyncDispose]();
  });
});

describe("a server does not start", () => {
  it("on a folder that another one uses, and does not change it", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "apiserver-"));
    try {
      for (const journal of ["sqlite", "none"] as const) {
        await using first = await startApiServer({ dataDir, journal });
        const second = startApiServer({ dataDir, journal, externalSans: ["other.example"] });
        await expect(second).rejects.toThrow(`the data folder ${dataDir} is in use by another API server`);
        expect((await begin(first, "GET", "/readyz").answer).text).toBe("ok");
      }
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it("on a port that is in use, or an address that the machine does not have", async () => {
    await using test = await startTestServer();
    const { port } = test.server;
    await expect(startTestServer({ port })).rejects.toThrow(
      `cannot listen on 127.0.0.1:${port}: another program listens there`,
    );
    await expect(startTestServer({ bindAddress: "192.0.2.1", port: 0 })).rejects.toThrow(
      "cannot listen on 192.0.2.1:0: this machine has no such address",
    );
  });
});
