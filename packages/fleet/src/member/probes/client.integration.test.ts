import { createSocket } from "node:dgram";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { flowProbe } from "./flow-probe.ts";
import { dnsLookup } from "./lookups.ts";
import { tcpProbe } from "./tcp.ts";

const ADDRESS = "127.0.0.1";
const signal = new AbortController().signal;
const ask = flowProbe(tcpProbe(systemClock), systemClock);

const servers: { close: (done: () => void) => unknown }[] = [];
afterEach(async () => {
  for (const it of servers.splice(0)) await new Promise<void>((resolve) => void it.close(() => resolve()));
});

async function listening(server: Pick<Server, "listen" | "address" | "close">): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => void server.listen(0, ADDRESS, resolve));
  return (server.address() as AddressInfo).port;
}
const target = (port: number, path?: string) => ({
  service: "work/hello",
  address: ADDRESS,
  port,
  http: path === undefined ? undefined : { host: "hello.work.svc.clusterset.local", path },
});

describe("a probe of a flow", () => {
  it.each<[string, RequestListener, string | undefined]>([
    ["takes 200 for an answer", (_request, response) => response.end("ok"), undefined],
    ["takes 404 for an answer", (_request, response) => response.writeHead(404).end(), undefined],
    ["takes 500 for a failure", (_request, response) => response.writeHead(500).end(), "HTTP 500"],
    ["does not read a body without end", (_request, response) => response.write("x".repeat(1000)), undefined],
    ["takes a closed connection for a failure", (request) => request.destroy(), "ECONNRESET"],
  ])("%s", async (_what, answer, problem) => {
    const server = createServer(answer);
    const port = await listening(server);
    expect(await ask(target(port, "/healthz"), signal)).toBe(problem);
    server.closeAllConnections();
  });

  it("waits two seconds for an answer", async () => {
    const clock = new FakeClock();
    const asked = Promise.withResolvers<void>();
    const server = createServer(() => asked.resolve());
    const port = await listening(server);
    const answer = flowProbe(tcpProbe(clock), clock)(target(port, "/"), signal);
    await asked.promise;
    await clock.advance(2000);
    expect(await answer).toBe("no answer within 2 s");
    server.closeAllConnections();
  });

  it("names the service, the path and itself", async () => {
    const seen: unknown[] = [];
    const port = await listening(
      createServer(({ url, headers }, response) => {
        seen.push(url, headers.host, headers["user-agent"]);
        response.end();
      }),
    );
    await ask(target(port, "/healthz"), signal);
    expect(seen).toEqual(["/healthz", "hello.work.svc.clusterset.local", "fairlead-probe"]);
  });

  it("without a path is a connection", async () => {
    const server = createTcpServer((socket) => void socket.destroy());
    const port = await listening(server as unknown as Server);
    expect(await ask(target(port), signal)).toBeUndefined();
    expect(await ask(target(1), signal)).toBe("no connection");
  });

  it("of a server that speaks no HTTP fails", async () => {
    const server = createTcpServer((socket) => void socket.resume().end("hello\r\n"));
    const port = await listening(server as unknown as Server);
    expect(await ask(target(port, "/"), signal)).toMatch(/^HPE_/);
  });
});

it("a lookup fails where nothing answers", async () => {
  const silent = createSocket("udp4");
  await new Promise<void>((resolve) => void silent.bind(0, ADDRESS, resolve));
  const lookup = dnsLookup();
  const { port } = silent.address();
  expect(await lookup(`${ADDRESS}:${port}`, "kubernetes.default.svc.cluster.local")).toBeDefined();
  await new Promise<void>((resolve) => void silent.close(() => resolve()));
});
