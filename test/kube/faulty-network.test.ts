import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "@fairlead/kube/api/core/v1/types.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { type FaultyProxy, startFaultyProxy } from "./faulty-proxy.ts";

/** The runtime over a faulty network: its state is correct again as soon as possible. */

const LIMIT = { timeout: 15_000, interval: 10 };
const suite = new AsyncDisposableStack();
let server: ApiServer;
let straight: KubeClient;
let stack: AsyncDisposableStack;
let proxy: FaultyProxy;
let client: KubeClient;
let informer: Informer<ConfigMap>;
let relists: number;

beforeAll(async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "faulty-network-"));
  suite.defer(() => rm(dataDir, { recursive: true }));
  server = await startApiServer({ dataDir, journal: "none" });
  suite.defer(() => server.close());
  straight = suite.use(connect(await loadKubeconfig(server.kubeconfig)));
});
afterAll(() => suite.disposeAsync());

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const config = await loadKubeconfig(server.kubeconfig);
  proxy = stack.use(await startFaultyProxy(Number(new URL(config.server).port)));
  const deps = systemDeps(silentLogger);
  client = stack.use(connect({ ...config, server: `https://127.0.0.1:${proxy.port}` }, deps));
  informer = stack.use(createInformer(client, CONFIG_MAPS, { namespace: "default" }, deps));
  relists = 0;
  informer.start(new AbortController().signal);
  await informer.synced(AbortSignal.timeout(10_000));
  // A new list would report present objects as unchanged, and missing ones as deleted.
  informer.subscribe(({ before, after }) => {
    if (before !== undefined && after === undefined) relists++;
  });
});
afterEach(() => stack.disposeAsync());

let count = 0;
async function write(): Promise<string> {
  const name = `made-${++count}`;
  await straight.create(CONFIG_MAPS, { metadata: { namespace: "default", name } });
  return name;
}

const seen = (name: string) => (): void =>
  expect([...informer.store.list()].map((it) => it.metadata.name)).toContain(name);

/** A call that gives up after a while, as renewals of leases do. */
async function callFor(ms: number): Promise<boolean> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(new FleetError("TIMED_OUT", "no answer")), ms);
  try {
    await client.list(CONFIG_MAPS, { namespace: "default", limit: 1, signal: limit.signal });
    return true;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

describe("a watch", () => {
  it("whose connection is reset resumes where it stopped", async () => {
    proxy.reset();
    await vi.waitFor(seen(await write()), LIMIT);
    expect(relists).toBe(0);
  });

  it("that a network has dropped without a notice to either end is reopened when calls are answered again", async () => {
    proxy.silence();
    const missed = await write();
    expect(await callFor(300)).toBe(false);
    proxy.heal();
    // The server answers, but the connection of the watch never delivers data again.
    await vi.waitFor(async () => expect(await callFor(1000)).toBe(true), LIMIT);
    await vi.waitFor(seen(missed), LIMIT);
    expect(relists).toBe(0);
  });

  it("of a slow server (2 s latency) is delayed but does not relist", async () => {
    proxy.delayMs = 2000;
    await vi.waitFor(seen(await write()), LIMIT);
    const name = `made-${++count}`;
    const made = await client.create(CONFIG_MAPS, { metadata: { namespace: "default", name } });
    expect(made.metadata.name).toBe(name);
    await vi.waitFor(seen(name), LIMIT);
    expect(relists).toBe(0);
  });
});

describe("a call", () => {
  it("that is swallowed is sent again when another is answered on a new connection", async () => {
    await client.create(CONFIG_MAPS, { metadata: { namespace: "default", name: "swallowed" } });
    proxy.silence();
    const data = { sent: "twice" };
    const writing = client.update(CONFIG_MAPS, {
      metadata: { namespace: "default", name: "swallowed" },
      data,
    });
    expect(await callFor(300)).toBe(false);
    proxy.heal();
    await vi.waitFor(async () => expect(await callFor(1000)).toBe(true), LIMIT);
    expect((await writing).data).toEqual(data);
  });

  it("that waits for a connection ends with its signal", async () => {
    proxy.silence();
    const stop = new AbortController();
    const waiting = client.list(CONFIG_MAPS, { signal: stop.signal });
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    // Half of the time for which connections are tried.
  }, 5000);
});
