import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { Agent, createServer, request, type Server } from "node:https";
import { type AddressInfo } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { issueAuthority, issueServerCertificate } from "@fairlead/base/pki/issue.ts";
import { type Answer, startTestServer, type TestServer } from "./support.ts";

/** exec, attach, port-forward and logs, with a kubelet that only notes what it is asked. */

interface Asked {
  readonly method: string;
  readonly url: string;
  readonly user: string;
  /** Whether the connection resumed the TLS session of an earlier one. */
  readonly isResumed: boolean;
  readonly headers: IncomingMessage["headers"];
}

let test: TestServer;
let kubelet: Server;
let asked: Asked[] = [];
const upgraded: Duplex[] = [];
const PODS = "/api/v1/namespaces/default/pods";

beforeAll(async () => {
  test = await startTestServer();
  kubelet = await startKubelet();
  const { port } = kubelet.address() as AddressInfo;
  await test.call("POST", "/api/v1/namespaces/default/serviceaccounts", {
    body: { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default" } },
  });
  const status = {
    addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  await create("/api/v1/nodes", { kind: "Node", metadata: { name: "node-1" }, status });
  await create(PODS, pod("one", ["main"], "node-1"));
  await create(PODS, pod("two", ["main", "side"], "node-1"));
  await create(PODS, pod("waiting", ["main"], undefined));
});
afterAll(async () => {
  kubelet.closeAllConnections();
  kubelet.close();
  await test[Symbol.asyncDispose]();
});
beforeEach(() => {
  asked = [];
});

function pod(name: string, containers: readonly string[], nodeName: string | undefined): object {
  const spec = {
    containers: containers.map((it) => ({ name: it, image: "i" })),
    ...(nodeName === undefined ? {} : { nodeName }),
  };
  return { kind: "Pod", metadata: { name }, spec };
}

async function create(path: string, body: object): Promise<void> {
  const answer = await test.call("POST", path, { body: { apiVersion: "v1", ...body } });
  expect(answer.code).toBe(201);
}

async function startKubelet(): Promise<Server> {
  const pki = join(test.dir, "pki");
  const [cert, key] = await Promise.all([
    readFile(join(pki, "ca.crt"), "utf8"),
    readFile(join(pki, "ca.key"), "utf8"),
  ]);
  const own = await issueServerCertificate({ cert, key }, { names: ["node-1"], ips: ["127.0.0.1"] });
  const server = createServer({
    cert: own.cert,
    key: own.key,
    ca: cert,
    requestCert: true,
    rejectUnauthorized: true,
  });
  const note = (incoming: IncomingMessage): void => {
    const transport = incoming.socket as TLSSocket;
    const subject = transport.getPeerCertificate().subject as { CN: string };
    asked.push({
      method: incoming.method ?? "",
      url: incoming.url ?? "",
      user: subject.CN,
      isResumed: transport.isSessionReused(),
      headers: incoming.headers,
    });
  };
  server.on("request", (incoming, response) => {
    note(incoming);
    if ((incoming.url ?? "").startsWith("/containerLogs/default/two"))
      response.writeHead(404).end("no such container");
    else response.writeHead(200, { "Content-Type": "text/plain" }).end("first\nsecond\n");
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    note(incoming);
    upgraded.push(socket);
    socket.on("error", () => socket.destroy());
    if ((incoming.url ?? "").includes("command=refuse")) {
      socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nrefuse");
      return;
    }
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${incoming.headers.upgrade}\r\n\r\nhello `,
    );
    socket.write(head);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return server;
}

interface Upgraded {
  readonly code: number;
  readonly socket: Duplex | undefined;
  readonly text: string;
}

function upgrade(path: string, method = "POST", headers: Record<string, string> = {}): Promise<Upgraded> {
  const { ca, admin, port } = test.server;
  const agent = new Agent({ ca, cert: admin.cert, key: admin.key });
  return new Promise((resolve, reject) => {
    const outgoing = request({
      host: "127.0.0.1",
      port,
      method,
      path,
      agent,
      headers: {
        Connection: "Upgrade",
        Upgrade: "SPDY/3.1",
        "X-Stream-Protocol-Version": "v4.channel.k8s.io",
        "Content-Length": "0",
        ...headers,
      },
    });
    outgoing.once("upgrade", (answer, socket, head) => {
      socket.unshift(head);
      resolve({ code: answer.statusCode ?? 0, socket, text: "" });
    });
    outgoing.once("response", (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.once("end", () =>
        resolve({ code: answer.statusCode ?? 0, socket: undefined, text: Buffer.concat(chunks).toString() }),
      );
    });
    outgoing.once("error", reject);
    outgoing.end();
  });
}

async function readAll(socket: Duplex): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe("streams to a pod", () => {
  it("reach the kubelet of its node as the API server, in the format of the kubelet's API", async () => {
    const { code, socket } = await upgrade(
      `${PODS}/one/exec?command=sh&command=-c&command=echo%20a%26b&stdin=true&stdout=true&tty=false`,
    );
    expect(code).toBe(101);
    socket?.end("world");
    expect(await readAll(socket as Duplex)).toBe("hello world");
    expect(asked).toMatchObject([
      {
        method: "POST",
        url: "/exec/default/one/main?input=1&output=1&command=sh&command=-c&command=echo%20a%26b",
        user: "kube-apiserver-kubelet-client",
        headers: { upgrade: "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io" },
      },
    ]);
    expect(asked[0]?.headers).not.toHaveProperty("authorization");
  });

  it("support attach and port-forward too, with either protocol", async () => {
    const websocket = { Upgrade: "websocket", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13" };
    const attached = await upgrade(`${PODS}/one/attach?stdout=1`, "GET", websocket);
    attached.socket?.destroy();
    const forwarded = await upgrade(`${PODS}/one/portforward?ports=80&ports=443`);
    forwarded.socket?.destroy();
    expect(asked.map((it) => `${it.method} ${it.url}`)).toEqual([
      "GET /attach/default/one/main?output=1",
      "POST /portForward/default/one?port=80&port=443",
    ]);
  });

  it("end on both sides when one side disconnects", async () => {
    for (const first of ["client", "kubelet"] as const) {
      const client = (await upgrade(`${PODS}/one/exec?command=x`)).socket;
      const [gone, left] = first === "client" ? [client, upgraded.at(-1)] : [upgraded.at(-1), client];
      const closed = new Promise((resolve) => {
        left?.once("close", resolve);
      });
      left?.resume();
      gone?.destroy();
      await closed;
    }
  });

  it("resume the TLS session of earlier ones with the same kubelet, as the same user", async () => {
    for (const _ of [1, 2]) {
      const { socket } = await upgrade(`${PODS}/one/exec?command=x`);
      socket?.end();
      await readAll(socket as Duplex);
    }
    expect(asked.at(-1)).toMatchObject({ isResumed: true, user: "kube-apiserver-kubelet-client" });
  });

  it("are rejected with a Status: no container chosen, no node yet, no such pod, no upgrade, rejected by the kubelet", async () => {
    const refusal = async (path: string): Promise<unknown> => JSON.parse((await upgrade(path)).text);
    expect(await refusal(`${PODS}/two/exec?command=x`)).toMatchObject({
      code: 400,
      message: "a container name must be specified for pod two, choose one of: [main side]",
    });
    expect(await refusal(`${PODS}/two/exec?command=x&container=other`)).toMatchObject({ code: 400 });
    expect(await refusal(`${PODS}/waiting/exec?command=x`)).toMatchObject({
      code: 400,
      message: "pod waiting does not have a host assigned",
    });
    expect(await refusal(`${PODS}/absent/exec?command=x`)).toMatchObject({ code: 404, reason: "NotFound" });
    expect(await refusal(`${PODS}/one/exec?command=refuse`)).toMatchObject({
      kind: "Status",
      code: 403,
      message: "refuse",
    });
    expect(asked).toHaveLength(1);
    expect((await test.call("POST", `${PODS}/one/exec?command=x`)).json).toMatchObject({
      code: 400,
      message: "Upgrade request required",
    });
    const stranger = await test.call("POST", `${PODS}/one/exec?command=x`, { anonymous: true });
    expect(stranger.json).toMatchObject({ code: 403 });
  });
});

describe("logs", () => {
  const log = (path: string): Promise<Answer> => test.call("GET", PODS + path);

  it("are plain text, and pass on the options of the request", async () => {
    const { code, text, headers } = await log(
      "/one/log?tailLines=2&timestamps=true&follow=false&insecureSkipTLSVerifyBackend=true",
    );
    expect({ code, text }).toEqual({ code: 200, text: "first\nsecond\n" });
    expect(headers["content-type"]).toBe("text/plain");
    expect(asked[0]?.url).toBe("/containerLogs/default/one/main?follow=false&timestamps=true&tailLines=2");
  });

  it("are streamed without a warning about listeners", async () => {
    const warnings: string[] = [];
    const note = ({ name }: Error): void => void warnings.push(name);
    process.on("warning", note);
    await test.call("GET", `${PODS}/one/log?follow=true`);
    await new Promise((resolve) => void setImmediate(resolve));
    process.off("warning", note);
    expect(warnings).toEqual([]);
  });

  it("are rejected with a Status if the kubelet rejects the request", async () => {
    expect((await log("/two/log?container=side")).json).toMatchObject({
      kind: "Status",
      code: 404,
      message: "no such container",
    });
  });

  it("are only requested from kubelets with a certificate of the configured authority", async () => {
    const ask = async (kubeletCa: string): Promise<Answer> => {
      await using strict = await startTestServer({ kubeletCa });
      const { port } = kubelet.address() as AddressInfo;
      const status = {
        addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
        daemonEndpoints: { kubeletEndpoint: { Port: port } },
      };
      for (const [path, body] of [
        ["/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "default" } }],
        ["/api/v1/nodes", { metadata: { name: "node-1" }, status }],
        [PODS, pod("one", ["main"], "node-1")],
      ] as const) {
        expect((await strict.call("POST", path, { body })).code).toBe(201);
      }
      return await strict.call("GET", `${PODS}/one/log`);
    };
    const refused = await ask((await issueAuthority({ commonName: "another" })).cert);
    expect(refused.json).toMatchObject({ code: 500, reason: "InternalError" });
    expect(refused.json.message).toMatch(/error dialing backend: .*certificate/);
    // With the right authority the kubelet is believed; it does not know this server's own certificate, and hangs up.
    expect((await ask(test.server.ca)).json.message).not.toContain("certificate");
  });
});
