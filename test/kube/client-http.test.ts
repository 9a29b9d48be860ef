import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { Credential } from "@fairlead/kube/config/config.ts";
import { withFlow } from "@fairlead/kube/client/flow.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  readonly port: number | undefined;
}
type Handler = (seen: Seen, response: ServerResponse) => void;

/** Longest that a busy machine may take. */
const LIMIT = { timeout: 20_000 };
const key = objectKey("work", "one");
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { method = "", url = "", headers } = request;
    const body = Buffer.concat(chunks).toString("utf8");
    const one = { method, url, headers, body, port: request.socket.remotePort };
    seen.push(one);
    (handlers.shift() ?? fallback)(one, response);
  });
});

let seen: Seen[];
let handlers: Handler[];
let fallback: Handler;
let client: KubeClient;
let credential: Credential;
let renewed: Credential | undefined;
let clock: FakeClock;

const json =
  (code: number, body: unknown, headers: Record<string, string> = {}): Handler =>
  (_, response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
const status = (code: number, reason: string, message = reason) => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  code,
  reason,
  message,
});

beforeEach(async () => {
  seen = [];
  handlers = [];
  fallback = json(200, { metadata: { name: "one", namespace: "work" } });
  credential = { token: "secret-token" };
  renewed = undefined;
  clock = new FakeClock();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  const credentials = {
    current: () => Promise.resolve(credential),
    expire: () => void (credential = renewed ?? credential),
  };
  client = connect({ name: "test", server: `http://127.0.0.1:${port}/prefix`, credentials }, { clock });
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

describe("a call", () => {
  it("uses the path of its object, below the server's own path", async () => {
    await client.get(CONFIG_MAPS, key);
    await client.find(NAMESPACES, objectKey(undefined, "work"));
    await client.list(CONFIG_MAPS, { namespace: "work", labelSelector: "a=b,c in (d,e)", limit: 5 });
    await client.update(
      CONFIG_MAPS,
      { metadata: { name: "one", namespace: "work" } },
      { subresource: "status" },
    );
    await client.apply(CONFIG_MAPS, { metadata: { name: "one", namespace: "work" } }, { fieldManager: "me" });
    await client.delete(CONFIG_MAPS, key, { uid: "u", propagationPolicy: "Background" });
    expect(seen.map((it) => `${it.method} ${it.url.replace("/prefix", "")}`)).toEqual([
      "GET /api/v1/namespaces/work/configmaps/one",
      "GET /api/v1/namespaces/work",
      "GET /api/v1/namespaces/work/configmaps?labelSelector=a%3Db%2Cc%20in%20(d%2Ce)&limit=5",
      "PUT /api/v1/namespaces/work/configmaps/one/status",
      "PATCH /api/v1/namespaces/work/configmaps/one?fieldManager=me&force=true",
      "DELETE /api/v1/namespaces/work/configmaps/one",
    ]);
    expect(seen[4]?.headers["content-type"]).toBe("application/apply-patch+yaml");
    expect(JSON.parse(seen[4]?.body ?? "")).toMatchObject({ apiVersion: "v1", kind: "ConfigMap" });
    expect(JSON.parse(seen[5]?.body ?? "")).toEqual({
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions: { uid: "u" },
      propagationPolicy: "Background",
    });
  });

  it("for a name with path separators is escaped or rejected", async () => {
    await client.get(CONFIG_MAPS, objectKey("work", "a/../b?x"));
    expect(seen[0]?.url).toBe("/prefix/api/v1/namespaces/work/configmaps/a%2F..%2Fb%3Fx");
    await expect(client.get(CONFIG_MAPS, objectKey(undefined, "one"))).rejects.toMatchObject({
      code: "API_BAD_REQUEST",
    });
    await expect(client.get(NAMESPACES, key)).rejects.toMatchObject({ code: "API_BAD_REQUEST" });
  });

  it("uses a connection again and again", async () => {
    for (let count = 0; count < 20; count++) await client.get(CONFIG_MAPS, key);
    // A second one opens when a call is made before the previous answer is read completely.
    expect(new Set(seen.map((it) => it.port)).size).toBeLessThanOrEqual(2);
  });

  it.each([
    [409, "Conflict", "API_CONFLICT", true],
    [409, "AlreadyExists", "API_ALREADY_EXISTS", false],
    [403, "Forbidden", "API_FORBIDDEN", false],
    [410, "Expired", "API_GONE", false],
    [422, "Invalid", "API_INVALID", false],
    [429, "TooManyRequests", "API_TOO_MANY_REQUESTS", true],
    [500, "InternalError", "API_UNEXPECTED", true],
    [503, "ServiceUnavailable", "API_UNAVAILABLE", true],
    [504, "Timeout", "API_TIMEOUT", true],
  ])("refused with %i %s fails with %s, the Status behind it", async (code, reason, expected, retriable) => {
    const body = status(code, reason, "because");
    handlers = [json(code, body)];
    await expect(client.get(CONFIG_MAPS, key)).rejects.toMatchObject({
      code: expected,
      retriable,
      message: "GET /api/v1/namespaces/work/configmaps/one: because",
      detail: { status: body },
    });
  });

  it("rejected with a body that is not a Status still reports the body", async () => {
    handlers = [
      (_, response) => {
        response.writeHead(502);
        response.end("<h1>Bad Gateway</h1>");
      },
    ];
    await expect(client.get(CONFIG_MAPS, key)).rejects.toMatchObject({
      code: "API_UNAVAILABLE",
      message: expect.stringContaining("Bad Gateway") as string,
    });
  });

  it("without a server fails as retriable, and does not disclose the token", async () => {
    const lost = connect({
      name: "lost",
      server: "http://127.0.0.1:1",
      credentials: { current: () => Promise.resolve({ token: "secret-token" }), expire() {} },
    });
    const error: unknown = await lost.get(CONFIG_MAPS, key).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "API_UNAVAILABLE", retriable: true });
    expect(JSON.stringify(error)).not.toContain("secret");
    await lost[Symbol.asyncDispose]();
  });

  it("with a Retry-After is retried after that time, if it is idempotent", async () => {
    handlers = [json(429, status(429, "TooManyRequests"), { "retry-after": "2" })];
    const getting = client.get(CONFIG_MAPS, key);
    while (clock.pending === 0) await new Promise(setImmediate);
    await clock.advance(1900);
    expect(seen).toHaveLength(1);
    await clock.advance(400);
    await getting;
    expect(seen).toHaveLength(2);
    handlers = [json(503, status(503, "ServiceUnavailable"), { "retry-after": "2" })];
    const creating = client.create(CONFIG_MAPS, { metadata: { name: "one", namespace: "work" } });
    await expect(creating).rejects.toMatchObject({ code: "API_UNAVAILABLE" });
  });

  it("B1: that is throttled with 429 waits and is sent again, for every verb and any number of times, without failing", async () => {
    const put = json(429, status(429, "TooManyRequests"), {
      "retry-after": "1",
      "x-kubernetes-pf-flowschema-uid": "schema",
    });
    handlers = Array.from({ length: 20 }, () => put);
    const creating = client.create(CONFIG_MAPS, { metadata: { name: "one", namespace: "work" } });
    for (let turn = 1; turn <= 20; turn++) {
      await vi.waitFor(() => expect(seen).toHaveLength(turn), LIMIT);
      await vi.waitFor(() => expect(clock.pending).toBeGreaterThan(0), LIMIT);
      await clock.advance(1100);
    }
    await creating;
    expect(seen).toHaveLength(21);
  });

  it("B1: shares a small limit after 429s, and controllers take turns", async () => {
    handlers = [json(429, status(429, "TooManyRequests"))];
    const body = { metadata: { name: "one", namespace: "work" } };
    const held: (() => void)[] = [];
    const first = withFlow("busy", () => client.create(CONFIG_MAPS, body));
    await expect(first).rejects.toMatchObject({ code: "API_TOO_MANY_REQUESTS" });
    fallback = (_, response) => void held.push(() => json(200, body)(seen[0] as Seen, response));
    const all = Array.from({ length: 30 }, () => withFlow("busy", () => client.create(CONFIG_MAPS, body)));
    await vi.waitFor(() => expect(held).toHaveLength(8), LIMIT);
    // Reads, and what belongs to no controller, do not wait.
    const read = withFlow("busy", () => client.get(CONFIG_MAPS, key));
    const lease = client.create(CONFIG_MAPS, body);
    await vi.waitFor(() => expect(held).toHaveLength(10), LIMIT);
    fallback = json(200, body);
    for (const answer of held) answer();
    await Promise.all([...all, read, lease]);
  });

  it("that is rejected with 401 reads its credential again, once", async () => {
    renewed = { token: "newer" };
    handlers = [json(401, status(401, "Unauthorized"))];
    await client.create(CONFIG_MAPS, { metadata: { name: "one", namespace: "work" } });
    expect(seen.map((it) => it.headers.authorization)).toEqual(["Bearer secret-token", "Bearer newer"]);
    fallback = json(401, status(401, "Unauthorized"));
    await expect(client.get(CONFIG_MAPS, key)).rejects.toMatchObject({ code: "API_UNAUTHORIZED" });
    expect(seen).toHaveLength(4);
  });

  it("whose connection is closed before the answer is sent again if it is idempotent", async () => {
    const cut: Handler = (_, response) => void response.destroy();
    handlers = [cut];
    await client.get(CONFIG_MAPS, key);
    expect(seen).toHaveLength(2);
    handlers = [cut];
    const creating = client.create(CONFIG_MAPS, { metadata: { name: "one", namespace: "work" } });
    await expect(creating).rejects.toMatchObject({ code: "API_UNAVAILABLE" });
    handlers = [cut, cut];
    await expect(client.get(CONFIG_MAPS, key)).rejects.toMatchObject({ code: "API_UNAVAILABLE" });
    expect(seen).toHaveLength(5);
  });

  it("that is answered after a failure wakes the callers that wait for the server", async () => {
    let calls = 0;
    const subscription = client.onReachable(() => calls++);
    await client.get(CONFIG_MAPS, key);
    expect(calls).toBe(0);
    handlers = [(_, response) => void response.destroy(), (_, response) => void response.destroy()];
    await client.get(CONFIG_MAPS, key).catch(() => {});
    await client.get(CONFIG_MAPS, key);
    await client.get(CONFIG_MAPS, key);
    expect(calls).toBe(1);
    subscription[Symbol.dispose]();
  });

  it("without an answer makes the client ask for the version while a caller waits for the server", async () => {
    const back = Promise.withResolvers<void>();
    using _subscription = client.onReachable(() => back.resolve());
    handlers = [(_, response) => void response.destroy(), (_, response) => void response.destroy()];
    await client.get(CONFIG_MAPS, key).catch(() => {});
    await clock.advance(300);
    await back.promise;
    expect(seen.map((it) => it.url).slice(2)).toEqual(["/prefix/version"]);
  });

  it("in flight ends when the client is disposed", async () => {
    handlers = [() => {}];
    const getting = client.get(CONFIG_MAPS, key);
    const error = getting.catch((thrown: unknown) => thrown);
    while (seen.length === 0) await new Promise(setImmediate);
    await client[Symbol.asyncDispose]();
    expect(await error).toMatchObject({ code: "ABORTED" });
  });
});

describe("a watch", () => {
  const forever = new AbortController().signal;
  const line = (type: string, version: string): string =>
    `${JSON.stringify({ type, object: { metadata: { name: "ümlaut", resourceVersion: version } } })}\n`;

  it("sends the parameters of its options", async () => {
    handlers = [(_, response) => response.end()];
    const options = {
      sendInitialEvents: true,
      allowWatchBookmarks: true,
      timeoutSeconds: 300,
      namespace: "work",
    };
    for await (const event of client.watch(CONFIG_MAPS, options, forever)) expect(event).toBeUndefined();
    expect(seen[0]?.url).toBe(
      "/prefix/api/v1/namespaces/work/configmaps?watch=true&timeoutSeconds=300&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    );
  });

  it("gives each event as it comes, however the bytes are cut, and ends with the stream", async () => {
    const bytes = Buffer.from(line("ADDED", "1") + line("MODIFIED", "2"));
    const gate = Promise.withResolvers<void>();
    handlers = [
      (_, response) => {
        response.write(bytes.subarray(0, 45));
        response.write(bytes.subarray(45, 90));
        void gate.promise.then(() => response.end(bytes.subarray(90)));
      },
    ];
    const types: string[] = [];
    for await (const event of client.watch(CONFIG_MAPS, {}, forever)) {
      types.push(event.type);
      gate.resolve();
    }
    expect(types).toEqual(["ADDED", "MODIFIED"]);
  });

  it("whose connection breaks throws a retriable error", async () => {
    handlers = [
      (_, response) => {
        response.write(line("ADDED", "1"));
        setImmediate(() => response.destroy());
      },
    ];
    const events = client.watch(CONFIG_MAPS, {}, forever)[Symbol.asyncIterator]();
    await events.next();
    await expect(events.next()).rejects.toMatchObject({ code: "API_UNAVAILABLE", retriable: true });
  });

  it("that stays silent beyond its timeout is closed", async () => {
    handlers = [(_, response) => void response.write(line("ADDED", "1"))];
    const events = client.watch(CONFIG_MAPS, { timeoutSeconds: 300 }, forever)[Symbol.asyncIterator]();
    await events.next();
    const error = events.next().catch((thrown: unknown) => thrown);
    await clock.advance(331_000);
    expect(await error).toMatchObject({ code: "API_UNAVAILABLE", retriable: true });
  });

  it("without a bookmark for ninety seconds is reopened, and one with bookmarks is not", async () => {
    let send: (type: string) => void = () => {};
    handlers = [
      (_, response) => {
        send = (type) => void response.write(line(type, "1"));
        send("ADDED");
      },
    ];
    const options = { timeoutSeconds: 300, allowWatchBookmarks: true };
    const events = client.watch(CONFIG_MAPS, options, forever)[Symbol.asyncIterator]();
    await events.next();
    for (let minute = 0; minute < 3; minute++) {
      await clock.advance(60_000);
      send("BOOKMARK");
      expect((await events.next()).value).toMatchObject({ type: "BOOKMARK" });
    }
    const error = events.next().catch((thrown: unknown) => thrown);
    await clock.advance(91_000);
    expect(await error).toMatchObject({ code: "API_UNAVAILABLE", retriable: true });
  });

  it("is rejected as a call is", async () => {
    handlers = [json(410, status(410, "Expired"))];
    const events = client.watch(CONFIG_MAPS, { resourceVersion: "1" }, forever)[Symbol.asyncIterator]();
    await expect(events.next()).rejects.toMatchObject({ code: "API_GONE" });
  });

  it("takes no connection from the calls, regardless of their number", async () => {
    const watches = Array.from({ length: 40 }, () => {
      handlers.push((_, response) => void response.write(line("ADDED", "1")));
      return client.watch(CONFIG_MAPS, {}, forever)[Symbol.asyncIterator]();
    });
    await Promise.all(watches.map((events) => events.next()));
    await client.get(CONFIG_MAPS, key);
    for (const events of watches) await events.return?.();
  });
});
