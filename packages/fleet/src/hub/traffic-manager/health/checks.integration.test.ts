import { defined } from "@fairlead/base/defined.ts";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { issueAuthority, issueServerCertificate } from "@fairlead/base/pki/issue.ts";
import { type Monitor, monitorOf } from "../profile.ts";
import { createCheck } from "./checks.ts";

/** Its servers are on this machine. */
const checkEndpoint = createCheck(() => true);
const never = new AbortController().signal;
const monitor = (more: Partial<Monitor>): Monitor => ({
  ...monitorOf({ metadata: { name: "web" }, spec: { resourceGroup: "any" } }),
  ...more,
});
let asked: Pick<IncomingMessage, "method" | "url" | "headers"> | undefined;
let answer: (response: ServerResponse) => void;
const server = createServer(({ method, url, headers }, response) => {
  asked = { ...defined({ method, url }), headers };
  answer(response);
});
const mute = createTcpServer(() => {});
let port = 0;

beforeAll(async () => {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  await new Promise<void>((resolve) => void mute.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  mute.close();
});

describe("a check over HTTP", () => {
  it.each([
    [200, true],
    [204, false],
    [301, false],
    [404, false],
    [503, false],
  ])("that is answered %i says %s", async (code, expected) => {
    answer = (response) => void response.writeHead(code, { location: "/elsewhere" }).end("a body");
    expect(await checkEndpoint("127.0.0.1", monitor({ port }), never)).toBe(expected);
  });

  it("asks for the path, with the headers of the profile", async () => {
    answer = (response) => void response.end();
    const customHeaders = [
      { name: "Host", value: "shop.example" },
      { name: "X-Check", value: "1" },
    ];
    expect(
      await checkEndpoint("127.0.0.1", monitor({ port, path: "/healthz?full", customHeaders }), never),
    ).toBe(true);
    expect(asked).toMatchObject({
      method: "GET",
      url: "/healthz?full",
      headers: { host: "shop.example", "x-check": "1" },
    });
  });

  it("fails if the connection is refused, if a path or header cannot be sent, and if the server does not speak TLS", async () => {
    answer = (response) => void response.end();
    expect(await checkEndpoint("127.0.0.1", monitor({ port: 1 }), never)).toBe(false);
    expect(await checkEndpoint("127.0.0.1", monitor({ port, path: "/a b" }), never)).toBe(false);
    const customHeaders = [{ name: "X", value: "1\r\nY: 2" }];
    expect(await checkEndpoint("127.0.0.1", monitor({ port, customHeaders }), never)).toBe(false);
    expect(await checkEndpoint("127.0.0.1", monitor({ port, protocol: "HTTPS" }), never)).toBe(false);
  });

  it("ends with its signal, although nothing is answered", async () => {
    const stop = new AbortController();
    const mutePort = (mute.address() as AddressInfo).port;
    const connected = new Promise((resolve) => void mute.once("connection", resolve));
    const check = checkEndpoint("127.0.0.1", monitor({ port: mutePort }), stop.signal);
    await connected;
    stop.abort();
    expect(await check).toBe(false);
  });

  it("over TCP needs no answer, only a connection", async () => {
    const mutePort = (mute.address() as AddressInfo).port;
    expect(await checkEndpoint("127.0.0.1", monitor({ port: mutePort, protocol: "TCP" }), never)).toBe(true);
    expect(await checkEndpoint("127.0.0.1", monitor({ port: 1, protocol: "TCP" }), never)).toBe(false);
  });
});

describe("a check over HTTPS", () => {
  it("asks for the name in the Host header, and does not mind whose certificate it gets", async () => {
    const authority = await issueAuthority({ commonName: "untrusted" });
    const { key, cert } = await issueServerCertificate(authority, { names: ["other.example"], ips: [] });
    const secure = createSecureServer({ key, cert }, (_, response) => void response.end());
    const servername = new Promise((resolve) => {
      secure.once("secureConnection", (socket: TLSSocket & { servername?: string | false }) =>
        resolve(socket.servername),
      );
    });
    await new Promise<void>((resolve) => void secure.listen(0, "127.0.0.1", resolve));
    const customHeaders = [{ name: "host", value: "shop.example:443" }];
    const of = monitor({ protocol: "HTTPS", port: (secure.address() as AddressInfo).port, customHeaders });
    expect(await checkEndpoint("127.0.0.1", of, never)).toBe(true);
    expect(await servername).toBe("shop.example");
    secure.closeAllConnections();
    secure.close();
  });
});

describe("what a profile leaves out of its monitor", () => {
  it.each([
    [undefined, { intervalInSeconds: 30, timeoutInSeconds: 10, path: "/", port: 80, protocol: "HTTP" }],
    [{ intervalInSeconds: 30 as const }, { timeoutInSeconds: 10, toleratedNumberOfFailures: 3 }],
    [{ intervalInSeconds: 10 as const }, { timeoutInSeconds: 9 }],
    [{ intervalInSeconds: 10 as const, timeoutInSeconds: 5 }, { timeoutInSeconds: 5 }],
  ])("of %j is filled in", (monitorConfig, expected) => {
    const spec = { resourceGroup: "any", ...defined({ monitorConfig }) };
    expect(monitorOf({ metadata: { name: "web" }, spec })).toMatchObject(expected);
  });
});
