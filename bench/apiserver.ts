/**
 * What the embedded API server does in a second, against what the same machine does in the same minute without it:
 *
 * - writes: against SQLite transactions with the same rows, and against HTTPS requests that store nothing;
 * - deliveries: against writing the same bytes to as many TLS responses;
 * - a list of 10,000: against sending a buffer of that size;
 * - a start on 100,000 stored objects: against reading the rows;
 * - memory: per object of 1.2 kB, parsed and as bytes.
 *
 * The clients run in a separate thread. The figures claim proportions, not speeds.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import type { ResourceDefinition } from "@fairlead/apiserver/registry/types.ts";
import type { ApiObject } from "@fairlead/apiserver/values/object.ts";
import type { WriteRequest } from "@fairlead/apiserver/registry/write.ts";
import { openSqliteJournal } from "@fairlead/apiserver/storage/sqlite.ts";

const WRITES = 4000;
const WATCHERS = [1, 10, 100];
const LISTED = 10_000;
const STORED = 100_000;
const PATH = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

interface Target {
  readonly port: number;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** What the thread of the clients is asked to do. */
type Task = Target &
  (
    | { readonly do: "post"; readonly count: number; readonly connections: number; readonly path: string }
    | { readonly do: "watch"; readonly watchers: number; readonly events: number; readonly path: string }
    | { readonly do: "get"; readonly path: string; readonly times: number }
  );

export async function run(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), "bench-apiserver-"));
  try {
    await using server = await startApiServer({ dataDir: dir });
    const target: Target = { port: server.port, ca: server.ca, ...server.admin };
    await using limit = await startLimit(target);
    const table = new Table();
    await benchWrites(table, { server, target, limit, dir });
    for (const watchers of WATCHERS) await benchWatch(table, { server, target, limit, watchers });
    await benchMemoryAndList(table, dir);
    await benchStart(table, join(dir, "stored"));
    table.print();
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

class Table {
  readonly #rows: (readonly string[])[] = [["what", "here", "limit", "share", "of which limit"]];
  add(what: string, unit: string, [here, limit]: readonly [number, number], of: string): void {
    const share = unit === "/s" ? here / limit : limit / here;
    this.#rows.push([what, format(here, unit), format(limit, unit), `${Math.round(share * 100)} %`, of]);
  }
  note(what: string, value: string): void {
    this.#rows.push([what, value, "", "", ""]);
  }
  print(): void {
    const widths = [0, 1, 2, 3].map((at) => Math.max(...this.#rows.map((row) => (row[at] ?? "").length)));
    for (const row of this.#rows)
      console.log(
        row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join("  ")
          .trimEnd(),
      );
  }
}

function format(value: number, unit: string): string {
  return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

function slice(name: string): ApiObject {
  return {
    kind: "EndpointSlice",
    apiVersion: "discovery.k8s.io/v1",
    metadata: { name, namespace: "default", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
    endpoints: Array.from({ length: 6 }, (_, at) => ({
      addresses: [`10.1.0.${at + 1}`],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${at}`,
      zone: "zone-a",
      targetRef: {
        kind: "Pod",
        namespace: "default",
        name: `web-7c5ddbdf54-${at}`,
        uid: `00000000-0000-4000-8000-00000000000${at}`,
      },
    })),
  };
}

function definitionOf(server: ApiServer): ResourceDefinition {
  const definition = server.registry.catalog.resource("discovery.k8s.io", "v1", "endpointslices");
  if (definition === undefined) throw new Error("EndpointSlices are not served");
  return definition;
}

function requestOf(definition: ResourceDefinition, name: string | undefined): WriteRequest {
  const user = { name: "bench", groups: ["system:masters"] };
  const base = { definition, namespace: "default", name, subresource: "", user };
  return { ...base, dryRun: false, fieldManager: "bench", warn: () => {} };
}

interface Bench {
  readonly server: ApiServer;
  readonly target: Target;
  readonly limit: { readonly port: number };
}

async function benchWrites(
  table: Table,
  { server, target, limit, dir }: Bench & { dir: string },
): Promise<void> {
  const rate = async (count: number, act: () => unknown): Promise<number> => {
    const start = performance.now();
    await act();
    return (count * 1000) / (performance.now() - start);
  };
  const bytes = Buffer.from(JSON.stringify(slice("limit")));
  const journal = openSqliteJournal(join(dir, "limit.db"));
  let revision = 0;
  const records = (count: number): Parameters<typeof journal.commit>[0] =>
    Array.from({ length: count }, () => {
      revision += 1;
      return { revision, table: "t", key: `k${revision}`, type: "ADDED" as const, value: bytes, atMs: 0 };
    });
  const single = await rate(WRITES, () => {
    for (let at = 0; at < WRITES; at += 1) journal.commit(records(1));
  });
  const grouped = await rate(WRITES, () => {
    for (let at = 0; at < WRITES; at += 32) journal.commit(records(32));
  });
  journal[Symbol.dispose]();
  const definition = definitionOf(server);
  const create = (name: string): Promise<unknown> =>
    server.registry.create(requestOf(definition, undefined), slice(name));
  const one = await rate(WRITES, async () => {
    for (let at = 0; at < WRITES; at += 1) await create(`one-${at}`);
  });
  const many = await rate(WRITES, async () => {
    for (let at = 0; at < WRITES; at += 32) {
      await Promise.all(Array.from({ length: 32 }, (_, more) => create(`many-${at + more}`)));
    }
  });
  table.add("writes, one at a time", "/s", [one, single], "SQLite, one transaction each");
  table.add("writes, 32 at a time", "/s", [many, grouped], "SQLite, 32 to a transaction");
  const task = { ...target, do: "post", count: WRITES, connections: 32, path: PATH } as const;
  const bare = await measure({ ...task, port: limit.port });
  const posted = await measure(task);
  table.add(
    "writes over HTTPS, 32 connections",
    "/s",
    [(WRITES * 1000) / posted, (WRITES * 1000) / bare],
    "HTTPS POST answered at once",
  );
}

/** How long the clients' thread takes. Unit: milliseconds. */
function measure(task: Task, started: () => Promise<void> | void = () => {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: task });
    let startMs = 0;
    worker.on("message", (message: string) => {
      if (message === "ready") {
        startMs = performance.now();
        Promise.resolve(started()).catch(reject);
      } else resolve(performance.now() - startMs);
    });
    worker.once("error", reject);
  });
}

async function benchWatch(
  table: Table,
  { server, target, limit, watchers }: Bench & { watchers: number },
): Promise<void> {
  const events = Math.max(200, Math.floor(4000 / watchers));
  const definition = definitionOf(server);
  const update = async (at: number): Promise<void> => {
    await server.registry.change(requestOf(definition, "one-0"), (entry) => {
      if (entry === undefined) return undefined;
      const { metadata } = entry.object;
      return {
        input: {
          ...structuredClone(entry.object),
          metadata: { ...metadata, annotations: { at: String(at) } },
        },
      };
    });
  };
  const task = { ...target, do: "watch", watchers, events } as const;
  const path = `${PATH}?watch=1&resourceVersion=${server.registry.store.revision}`;
  const ms = await measure({ ...task, path }, async () => {
    for (let at = 0; at < events; at += 8) {
      await Promise.all(Array.from({ length: 8 }, (_, more) => update(at + more)));
    }
  });
  const bareMs = await measure({
    ...task,
    port: limit.port,
    path: `/fan-out?events=${events}&watchers=${watchers}`,
  });
  const rate = (time: number): number => (events * watchers * 1000) / time;
  table.add(
    `deliveries, ${watchers} watcher${watchers === 1 ? "" : "s"}`,
    "/s",
    [rate(ms), rate(bareMs)],
    "the same bytes to TLS responses",
  );
}

/** On a separate server: leftovers of the others would blur the difference. */
async function benchMemoryAndList(table: Table, dir: string): Promise<void> {
  await using server = await startApiServer({ dataDir: join(dir, "listed"), journal: "none" });
  const target: Target = { port: server.port, ca: server.ca, ...server.admin };
  await using limit = await startLimit(target);
  const definition = definitionOf(server);
  const fill = async (from: number, to: number): Promise<void> => {
    for (let at = from; at < to; at += 100) {
      const batch = Array.from({ length: 100 }, (_, more) => slice(`listed-${at + more}`));
      await Promise.all(batch.map((it) => server.registry.create(requestOf(definition, undefined), it)));
    }
  };
  // The first part brings the code to its final form, which would else be counted in.
  await fill(0, LISTED / 2);
  const before = usedBytes();
  await fill(LISTED / 2, LISTED);
  const perObject = (usedBytes() - before) / (LISTED / 2);
  const [stored] = server.registry.store.table("endpointslices.discovery.k8s.io").entries();
  const bytes = stored?.json.length ?? 0;
  table.add("memory per object, parsed and as bytes", "kB", [perObject / 1000, bytes / 1000], "its JSON");
  const times = 5;
  const ask = { ...target, do: "get", times } as const;
  const ms = (await measure({ ...ask, path: PATH })) / times;
  const bare = (await measure({ ...ask, path: `/bytes?size=${bytes * LISTED}`, port: limit.port })) / times;
  table.add(`list of ${LISTED}`, "ms", [ms, bare], "an HTTPS answer of that size");
}

async function benchStart(table: Table, dir: string): Promise<void> {
  await using first = await startApiServer({ dataDir: dir });
  await first.close();
  const path = join(dir, "journal.db");
  const journal = openSqliteJournal(path);
  let { revision } = journal.load();
  for (let at = 0; at < STORED; at += 1000) {
    journal.commit(
      Array.from({ length: 1000 }, (_, more) => {
        revision += 1;
        const name = `stored-${at + more}`;
        const object = slice(name);
        object.metadata.resourceVersion = String(revision);
        const value = Buffer.from(JSON.stringify(object));
        const stored = { table: "endpointslices.discovery.k8s.io", key: `default/${name}`, value };
        return { ...stored, revision, type: "ADDED" as const, atMs: 0 };
      }),
    );
  }
  const rowsMs = timeOf(() => {
    for (const _ of journal.load().objects);
  });
  journal[Symbol.dispose]();
  const startMs = performance.now();
  await using _server = await startApiServer({ dataDir: dir });
  const ms = performance.now() - startMs;
  table.add(`start on ${STORED} objects`, "ms", [ms, rowsMs], "reading the rows");
}

function timeOf(act: () => void): number {
  const start = performance.now();
  act();
  return performance.now() - start;
}

function usedBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** The same socket without an API server behind it. */
async function startLimit(target: Target): Promise<AsyncDisposable & { readonly port: number }> {
  const line = Buffer.from(`${JSON.stringify({ type: "MODIFIED", object: slice("one-0") })}\n`);
  const waiting: (() => void)[] = [];
  const server: Server = createServer({
    cert: target.cert,
    key: target.key,
    ca: target.ca,
    requestCert: true,
    rejectUnauthorized: false,
  });
  server.on("request", (incoming, response) => {
    const url = new URL(incoming.url ?? "/", "https://localhost");
    incoming.resume();
    if (url.pathname === "/bytes") response.end(Buffer.alloc(Number(url.searchParams.get("size")), "x"));
    else if (url.pathname !== "/fan-out") incoming.once("end", () => response.writeHead(201).end(line));
    else {
      response.writeHead(200);
      response.flushHeaders();
      waiting.push(() => response.write(line));
      if (waiting.length === Number(url.searchParams.get("watchers")))
        fanOut(waiting.splice(0), Number(url.searchParams.get("events")));
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

function fanOut(writes: readonly (() => void)[], events: number): void {
  let left = events;
  const turn = (): void => {
    for (const write of writes) write();
    left -= 1;
    if (left > 0) setImmediate(turn);
  };
  setTimeout(turn, 20);
}

/** The clients. */
async function work(task: Task): Promise<void> {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: 1000,
    ca: task.ca,
    cert: task.cert,
    key: task.key,
    checkServerIdentity: () => undefined,
    rejectUnauthorized: false,
  });
  const report = (message: string): void => parentPort?.postMessage(message);
  const call = (
    method: string,
    path: string,
    body: string | undefined,
    onData: (chunk: Buffer) => boolean,
  ): Promise<void> =>
    new Promise((resolve, reject) => {
      const headers =
        body === undefined
          ? {}
          : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
      const outgoing = request(
        { host: "127.0.0.1", port: task.port, method, path, agent, headers },
        (answer) => {
          answer.on("data", (chunk: Buffer) => {
            if (onData(chunk)) resolve();
          });
          answer.once("end", resolve);
        },
      );
      outgoing.once("error", reject);
      outgoing.end(body);
    });
  const ignore = (): boolean => false;
  if (task.do === "get") {
    await call("GET", "/version", undefined, ignore);
    report("ready");
    for (let at = 0; at < task.times; at += 1) await call("GET", task.path, undefined, ignore);
  } else if (task.do === "post") {
    const each = Math.floor(task.count / task.connections);
    await Promise.all(
      Array.from({ length: task.connections }, () => call("GET", "/version", undefined, ignore)),
    );
    report("ready");
    const writer = async (writer_: number): Promise<void> => {
      for (let at = 0; at < each; at += 1) {
        await call("POST", task.path, JSON.stringify(slice(`h${writer_}-${at}`)), ignore);
      }
    };
    await Promise.all(Array.from({ length: task.connections }, (_, at) => writer(at)));
  } else {
    await watchAll(task, call, () => report("ready"));
  }
  agent.destroy();
  report("done");
}

async function watchAll(
  task: Extract<Task, { do: "watch" }>,
  call: (method: string, path: string, body: undefined, onData: (chunk: Buffer) => boolean) => Promise<void>,
  ready: () => void,
): Promise<void> {
  const watches = Array.from({ length: task.watchers }, () => {
    let lines = 0;
    return call("GET", task.path, undefined, (chunk) => {
      for (const byte of chunk) if (byte === 10) lines += 1;
      return lines >= task.events;
    });
  });
  // Connections take a moment; events from before a watch is established are sent to it too.
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  });
  ready();
  await Promise.all(watches);
}

if (!isMainThread && workerData !== null) await work(workerData as Task);
