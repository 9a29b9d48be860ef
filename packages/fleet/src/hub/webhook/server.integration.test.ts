import { connect, type Socket } from "node:net";
import { request } from "node:https";
import { afterAll, beforeAll, expect, it } from "vitest";
import { issueAuthority } from "@fairlead/base/pki/issue.ts";
import { createLogger } from "@fairlead/base/log.ts";
import { serveWebhook, type WebhookServer } from "./server.ts";

const HOST = "127.0.0.1";
const IDLE = 1000;

let server: WebhookServer;
const sockets: Socket[] = [];

beforeAll(async () => {
  server = await serveWebhook(`${HOST}:0`, () => Promise.resolve(undefined), createLogger("test", "silent"));
  server.use(await issueAuthority({ commonName: "webhook" }));
});
afterAll(async () => {
  for (const it of sockets) it.destroy();
  await server[Symbol.asyncDispose]();
});

function review(): Promise<number | undefined> {
  const body = JSON.stringify({
    request: { uid: "u", kind: { kind: "MemberCluster" }, operation: "DELETE" },
  });
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        host: HOST,
        port: server.port,
        path: "/validate",
        method: "POST",
        rejectUnauthorized: false,
        agent: false,
      },
      (response) => {
        response.resume();
        response.once("end", () => resolve(response.statusCode));
      },
    );
    asked.once("error", reject);
    asked.end(body);
  });
}

it("a review is answered while a thousand connections say nothing, and few of them are kept", async () => {
  let open = 0;
  for (let at = 0; at < IDLE; at++) {
    const socket = connect(server.port, HOST);
    sockets.push(socket);
    socket.on("error", () => {});
    await new Promise((resolve) => socket.once("connect", resolve));
    open++;
    socket.once("close", () => open--);
    socket.resume();
  }
  expect(await review()).toBe(200);
  await expect.poll(() => open).toBeLessThanOrEqual(64);
  expect(await review()).toBe(200);
}, 30_000);
