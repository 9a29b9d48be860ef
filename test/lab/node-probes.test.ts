import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo, Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { probeAttempts } from "@fairlead/lab/node/probe/attempt.ts";

/** The target's container is not entered by probes over the network. */
const target = {
  container: { name: "c", ports: [{ name: "web", containerPort: 9 }] },
  podIP: "127.0.0.1",
  run: {
    podUid: "u",
    name: "c",
    attempt: 0,
    image: "i",
    tty: false,
    user: { uid: 0, gid: 0, groups: [0] },
    fallsBackToLogs: false,
    folder: "/nowhere",
    process: undefined,
    startedAtMs: 0,
    exit: undefined,
  },
};
const attempt = probeAttempts(systemClock);
const servers: Server[] = [];

async function listen(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

describe("a probe over HTTP", () => {
  it("reports the response, follows redirects to the same host, and accepts redirects to other hosts as success", async () => {
    const seen: IncomingMessage[] = [];
    const port = await listen(
      createHttpServer((request, response) => {
        seen.push(request);
        const location = { "/here": "/ok?x=1", "/there": "http://192.0.2.1/", "/loop": "/loop" }[
          request.url ?? ""
        ];
        if (location === undefined) response.writeHead(request.url?.startsWith("/ok") === true ? 200 : 503);
        else response.writeHead(302, { location });
        response.end("body");
      }),
    );
    const get = (path: string, httpHeaders: { name: string; value: string }[] = []) =>
      attempt({ httpGet: { port, path, httpHeaders } }, target, 5000);
    expect(await get("/here", [{ name: "Host", value: "example.org" }])).toEqual({ ok: true, message: "" });
    expect(seen.map((it) => it.url)).toEqual(["/here", "/ok?x=1"]);
    expect(seen[0]?.headers).toMatchObject({
      host: "example.org",
      "user-agent": "kube-probe/1.36",
      accept: "*/*",
    });
    expect(await get("/there")).toEqual({ ok: true, message: "" });
    expect((await get("/loop")).message).toContain("stopped after 10 redirects");
    expect(await get("/no")).toEqual({ ok: false, message: "HTTP probe failed with statuscode: 503" });
    await get("/ok", [{ name: "Accept", value: "" }]);
    expect(seen.at(-1)?.headers.accept).toBeUndefined();
  });

  it("of a closed port fails with the kubelet's message", async () => {
    const port = await listen(createHttpServer());
    servers.pop()?.close();
    const refused = `dial tcp 127.0.0.1:${port}: connect: connection refused`;
    expect(await attempt({ httpGet: { port, path: "/a" } }, target, 1000)).toEqual({
      ok: false,
      message: `Get "http://127.0.0.1:${port}/a": ${refused}`,
    });
    expect(await attempt({ tcpSocket: { port } }, target, 1000)).toEqual({ ok: false, message: refused });
  });
});

describe("a probe over gRPC", () => {
  /** A health service: 1 is SERVING, 2 is NOT_SERVING; undefined for a server without one. */
  const serve = (answers: Readonly<Record<string, number>>): Promise<number> => {
    const server = createHttp2Server();
    server.on("stream", (stream, headers) => {
      stream.on("data", (chunk: Buffer) => {
        const service = chunk.subarray(7).toString();
        const status = answers[service];
        stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
        stream.on("wantTrailers", () =>
          stream.sendTrailers({ "grpc-status": status === undefined ? "12" : "0" }),
        );
        const isAsked = headers[":path"] === "/grpc.health.v1.Health/Check";
        stream.end(isAsked && status !== undefined ? Buffer.from([0, 0, 0, 0, 2, 8, status]) : undefined);
      });
    });
    return listen(server);
  };

  it("asks for the named service, and reports its health", async () => {
    const port = await serve({ "": 1, tired: 2 });
    expect(await attempt({ grpc: { port } }, target, 5000)).toEqual({ ok: true, message: "" });
    expect(await attempt({ grpc: { port, service: "tired" } }, target, 5000)).toEqual({
      ok: false,
      message: 'service unhealthy (responded with "NOT_SERVING")',
    });
    expect((await attempt({ grpc: { port, service: "x" } }, target, 5000)).message).toContain(
      "does not implement the grpc health protocol",
    );
  });

  it("fails if the port is closed", async () => {
    const port = await listen(createHttpServer());
    servers.pop()?.close();
    const { ok, message } = await attempt({ grpc: { port } }, target, 1000);
    expect([ok, message.startsWith(`failed to connect service "127.0.0.1:${port}"`)]).toEqual([false, true]);
  });
});
