import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { type Answer, type CallOptions, startTestServer, type TestServer } from "./support.ts";

/** A client that holds resources of the server does not take them from other clients, and cannot hold them for long. */

const USERS = ["alice", "bob", "member"];
const NAMESPACE = "/api/v1/namespaces/default";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const LIMITS = { maxRequestsInflight: 8, maxMutatingRequestsInflight: 8, maxUnsentBytes: 64 * 1024 * 1024 };
/** For a machine that is busy with other things. Unit: milliseconds. */
const WAIT = { timeout: 20_000 };
/** Longer than any transfer of these tests may take. Unit: milliseconds. */
const DEADLINE_MS = 90_000;

let test: TestServer;
let clock: FakeClock;
const sockets: Socket[] = [];

function headers(user: string): Record<string, string> {
  return { Authorization: `Bearer ${user}-token` };
}

function as(user: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  return test.call(method, path, { ...options, anonymous: true, headers: headers(user) });
}

function configMap(name: string, bytes: number): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { x: "x".repeat(bytes) } };
}

function lease(seconds: number): object {
  const metadata = { name: "member" };
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata,
    spec: { leaseDurationSeconds: seconds },
  };
}

/** A connection that sends what it is given, and reads nothing. */
async function open(text: string): Promise<TLSSocket> {
  const socket = connect({ host: "127.0.0.1", port: test.server.port, ca: test.server.ca });
  sockets.push(socket);
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  socket.pause();
  socket.write(text);
  return socket;
}

function request(user: string, line: string, further: readonly string[] = []): string {
  const lines = [`${line} HTTP/1.1`, "Host: a", `Authorization: Bearer ${user}-token`, ...further];
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** Requests in flight, except the request for this metric. */
async function inflight(kind: string): Promise<number> {
  const { text } = await test.call("GET", "/metrics");
  const line = new RegExp(`^apiserver_current_inflight_requests\\{request_kind="${kind}"\\} (\\d+)`, "m");
  return Number(line.exec(text)?.[1] ?? Number.NaN) - (kind === "readOnly" ? 1 : 0);
}

async function expectServed(): Promise<void> {
  expect((await as("alice", "GET", `${NAMESPACE}/configmaps?limit=1`)).code).toBe(200);
  const { code } = await as("alice", "PUT", `${NAMESPACE}/configmaps/small`, {
    body: configMap("small", 10),
  });
  expect(code).toBe(200);
  expect((await test.call("GET", "/readyz", { anonymous: true })).code).toBe(200);
  const renewed = await test.call("PATCH", `${LEASES}/member`, {
    anonymous: true,
    headers: { ...headers("member"), "Content-Type": "application/merge-patch+json" },
    body: { spec: { renewTime: new Date(clock.now()).toISOString().replace("Z", "000Z") } },
  });
  expect(renewed.code).toBe(200);
}

beforeEach(async () => {
  clock = new FakeClock(Date.now());
  const staticTokens = new Map(USERS.map((name) => [`${name}-token`, { name, groups: [] }]));
  test = await startTestServer({ clock, limits: LIMITS, authentication: { staticTokens } });
  const subjects = USERS.map((name) => ({ kind: "User", name, apiGroup: "rbac.authorization.k8s.io" }));
  const roleRef = { kind: "ClusterRole", name: "cluster-admin", apiGroup: "rbac.authorization.k8s.io" };
  await test.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
    body: { metadata: { name: "all" }, subjects, roleRef },
  });
  await test.call("POST", `${NAMESPACE}/configmaps`, { body: configMap("small", 1) });
  await test.call("POST", LEASES, { body: lease(1) });
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  const closed = test[Symbol.asyncDispose]();
  // Connections that ended during their handshake are closed when the server has waited long enough.
  await clock.advance(DEADLINE_MS);
  await closed;
});

describe("connections of clients that have not proven who they are", () => {
  const ANONYMOUS = "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n";

  it("are bounded, whether they say nothing or ask anonymously, and known clients keep theirs", async () => {
    const watch = await open(request("alice", `GET ${NAMESPACE}/configmaps?watch=1`));
    const idle = await open(request("alice", `GET ${NAMESPACE}/configmaps/small`));
    const asked = await open(ANONYMOUS);
    await once(asked.resume(), "data");
    const pretending = await open(ANONYMOUS.replace("Host", "Authorization: Basic YTpi\r\nHost"));
    await once(pretending.resume(), "data");
    const strangers = new Set<Socket>();
    const connected = Array.from({ length: 1200 }, () => {
      const socket = connectTcp({ host: "127.0.0.1", port: test.server.port });
      strangers.add(socket);
      sockets.push(socket);
      socket.on("error", () => {});
      socket.resume().once("close", () => strangers.delete(socket));
      return once(socket, "connect");
    });
    await Promise.all(connected);
    // Its handshake is done: only the limit closes it.
    await expect.poll(() => asked.destroyed && pretending.destroyed, WAIT).toBe(true);
    await expect.poll(() => strangers.size, WAIT).toBeLessThanOrEqual(1024);
    await expectServed();
    expect([watch.destroyed, idle.destroyed]).toEqual([false, false]);
    const again = once(idle.resume(), "data");
    idle.write(request("alice", `GET ${NAMESPACE}/configmaps/small`));
    expect(String(await again)).toContain("HTTP/1.1 200");
  });
});

describe("bodies that arrive too slowly", () => {
  it("take no room from other users, and are aborted in the end", async () => {
    const body = ["Content-Type: application/json", "Content-Length: 1000"];
    const slow = [];
    for (let at = 0; at < 20; at += 1) slow.push(await open(`${request("bob", `POST ${REVIEWS}`, body)}{`));
    await expectServed();
    const ended = slow.map((it) => once(it.resume(), "close"));
    await clock.advance(DEADLINE_MS);
    await Promise.all(ended);
  });
});

describe("answers that the client does not read", () => {
  beforeEach(async () => {
    for (let at = 0; at < 8; at += 1)
      await test.call("POST", `${NAMESPACE}/configmaps`, { body: configMap(`large-${at}`, 900_000) });
  });

  it("take no room from other users, and release their own in the end", async () => {
    for (let at = 0; at < 20; at += 1) await open(request("bob", `GET ${NAMESPACE}/configmaps`));
    await expect.poll(() => inflight("readOnly"), WAIT).toBe(2);
    await expectServed();
    expect((await as("bob", "GET", `${NAMESPACE}/configmaps/small`)).code).toBe(429);
    await clock.advance(DEADLINE_MS);
    await expect.poll(() => inflight("readOnly"), WAIT).toBe(0);
    expect((await as("bob", "GET", `${NAMESPACE}/configmaps/small`)).code).toBe(200);
  });

  it("release their room when the client disconnects, also those that wait behind another one", async () => {
    const line = `GET ${NAMESPACE}/configmaps`;
    const socket = await open(request("alice", line) + request("alice", line) + request("bob", line));
    await expect.poll(() => inflight("readOnly"), WAIT).toBeGreaterThan(0);
    socket.destroy();
    await expect.poll(() => inflight("readOnly"), WAIT).toBe(0);
    expect((await as("alice", "GET", `${NAMESPACE}/configmaps/small`)).code).toBe(200);
  });

  it("of one user are bounded in bytes, including watches, which are ended", async () => {
    const from = (await test.call("GET", `${NAMESPACE}/configmaps?limit=1`)).json.metadata.resourceVersion;
    const watch = `GET ${NAMESPACE}/configmaps?watch=1&resourceVersion=${from}`;
    const unread = [];
    for (let at = 0; at < 30; at += 1) unread.push(await open(request("bob", watch)));
    await expect.poll(() => inflight("watch"), WAIT).toBe(30);
    let ended = 0;
    for (const it of unread) it.once("close", () => (ended += 1));
    const seen = watchAs("alice", `${NAMESPACE}/configmaps?watch=1&resourceVersion=${from}`);
    // More than the sockets take by themselves.
    for (let at = 0; at < 12; at += 1)
      await as("alice", "PUT", `${NAMESPACE}/configmaps/large-0`, {
        body: configMap("large-0", 900_001 + at),
      });
    await expect.poll(() => seen.count(), WAIT).toBe(12);
    await expectServed();
    await clock.advance(DEADLINE_MS);
    for (const it of unread) it.resume();
    await expect.poll(() => inflight("watch"), WAIT).toBeLessThanOrEqual(1);
    expect(seen.count()).toBeGreaterThanOrEqual(12);
    seen.stop();
  });
});

function watchAs(user: string, path: string): { count: () => number; stop: () => void } {
  let lines = 0;
  const socket = connect({ host: "127.0.0.1", port: test.server.port, ca: test.server.ca });
  sockets.push(socket);
  socket.on("error", () => {});
  let rest = "";
  socket.on("data", (chunk: Buffer) => {
    const parts = (rest + chunk.toString("latin1")).split('"type":"MODIFIED"');
    lines += parts.length - 1;
    rest = parts.at(-1)?.slice(-16) ?? "";
  });
  socket.write(request(user, `GET ${path}`));
  return { count: () => lines, stop: () => socket.destroy() };
}
