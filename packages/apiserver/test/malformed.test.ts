import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IS_REAL } from "./real-server.ts";
import { startTestServer, type TestServer } from "./support.ts";

let test: TestServer;
beforeAll(async () => {
  test = await startTestServer();
});
afterAll(() => test[Symbol.asyncDispose]());

const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";
const REST = "HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n";

async function open(): Promise<TLSSocket> {
  const { port, ca, admin } = test.server;
  const socket = connect({ host: "127.0.0.1", port, ca, cert: admin.cert, key: admin.key });
  await once(socket, "secureConnect");
  return socket;
}

/** All that the server says until it ends the connection. */
async function answerTo(...parts: readonly string[]): Promise<string> {
  const socket = await open();
  for (const part of parts) socket.write(part);
  return rest(socket);
}

async function rest(socket: TLSSocket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

describe("a malformed request", () => {
  it.each(["FOO", "x-custom.method", "GETS"])("is answered 405 with the method %s", async (method) => {
    const answer = await answerTo(`${method} ${CONFIG_MAPS} ${REST}Connection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/);
    const [, body = ""] = answer.split("\r\n\r\n");
    expect(JSON.parse(body)).toMatchObject({ kind: "Status", code: 405, reason: "MethodNotAllowed" });
  });

  it.each(["F( /version HTTP/1.1\r\nHost: a\r\n\r\n", "GET /version HTTP/1.1\r\nHo st: a\r\n\r\n"])(
    "is answered 400 where it is not HTTP: %j",
    async (text) => {
      expect(await answerTo(text)).toMatch(/^HTTP\/1\.1 400 Bad Request/);
    },
  );

  it.skipIf(IS_REAL)(
    "is answered 431 where its headers have no end, with all of them under way",
    async () => {
      const header = `X-Long: ${"x".repeat(8000)}\r\n`;
      expect(await answerTo(`GET /version ${REST}`, header.repeat(40))).toMatch(
        /^HTTP\/1\.1 431 Request Header Fields Too Large\r\n/,
      );
    },
  );

  it.skipIf(IS_REAL)(
    "closes the connection without an answer while another answer is being sent",
    async () => {
      const socket = await open();
      socket.write(`GET ${CONFIG_MAPS}?watch=true ${REST}\r\n`);
      const [head] = (await once(socket, "data")) as [Buffer];
      expect(head.toString()).toMatch(/^HTTP\/1\.1 200 OK/);
      socket.write("FOO / HTTP/1.1\r\n\r\n");
      const more = await rest(socket).catch(() => "");
      expect(more).not.toContain("HTTP/1.1");
    },
  );
});
