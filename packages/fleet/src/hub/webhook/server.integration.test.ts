import { connect, type Socket } from "node:net";
import { request } from "node:https";
import { afterAll, beforeAll, expect, it } from "vitest";
import { issueAuthority, issueClientCertificate } from "@fairlead/base/pki/issue.ts";
import { createLogger } from "@fairlead/base/log.ts";
import { serveWebhook, type WebhookServer } from "./server.ts";

const HOST = "127.0.0.1";
const IDLE = 1000;
const log = createLogger("test", "silent");
/** The server may have closed the connection before its alert is read. */
const REFUSED = /certificate required|unknown ca|ECONNRESET|EPIPE|hang up/i;

let server: WebhookServer;
const sockets: Socket[] = [];

beforeAll(async () => {
  server = await serveWebhook(`${HOST}:0`, () => Promise.resolve(undefined), { log });
  server.use(await issueAuthority({ commonName: "webhook" }));
});
afterAll(async () => {
  for (const it of sockets) it.destroy();
  await server[Symbol.asyncDispose]();
});

function review(
  port = server.port,
  client: { readonly cert?: string; readonly key?: string } = {},
): Promise<number | undefined> {
  const body = JSON.stringify({
    request: { uid: "u", kind: { kind: "MemberCluster" }, operation: "DELETE" },
  });
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        host: HOST,
        port,
        path: "/validate",
        method: "POST",
        rejectUnauthorized: false,
        agent: false,
        ...client,
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

it("a server with an authority of clients answers those whose certificate it signed, and no others", async () => {
  const [own, foreign] = await Promise.all(
    ["clients", "others"].map((commonName) => issueAuthority({ commonName })),
  );
  if (own === undefined || foreign === undefined) throw new Error("no authorities");
  await using guarded = await serveWebhook(`${HOST}:0`, () => Promise.resolve(undefined), {
    log,
    clientCa: own.cert,
  });
  guarded.use(await issueAuthority({ commonName: "webhook" }));
  const signedBy = (authority: typeof own) =>
    issueClientCertificate(authority, { commonName: "kube-apiserver" });
  expect(await review(guarded.port, await signedBy(own))).toBe(200);
  await expect(review(guarded.port)).rejects.toThrow(REFUSED);
  await expect(review(guarded.port, await signedBy(foreign))).rejects.toThrow(REFUSED);
});
