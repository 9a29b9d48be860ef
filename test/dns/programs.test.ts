import { once } from "node:events";
import { connect as connectSocket } from "node:net";
import type { ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { MULTICLUSTER_CRDS } from "@fairlead/fleet/api/multicluster.x-k8s.io/crds.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { exchange } from "@fairlead/dns/exchange.ts";
import { TYPE } from "@fairlead/dns/wire/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { said } from "../support/dns-harness.ts";

const MAIN = fileURLToPath(new URL("../../packages/fairlead/src/main.ts", import.meta.url));
const HELLO = "hello.work.svc.clusterset.local.";
const LIMIT = { timeout: 15_000 };

const stack = new AsyncDisposableStack();
let dataDir: string;
let api: ApiServer;
let client: KubeClient;
let fleetPort: number;
let clusterPort: number;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "dns-programs-"));
  stack.defer(() => rm(dataDir, { recursive: true }));
  api = await startApiServer({ dataDir });
  stack.defer(() => api.close());
  client = stack.use(connect(await loadKubeconfig(api.kubeconfig)));
  await client.create(NAMESPACES, { metadata: { name: "work" } });
  [fleetPort, clusterPort] = [await freePort(), await freePort()];
  await Promise.all([
    run("dns", `--listen=127.0.0.1:${fleetPort}`),
    run(
      "lab-dns",
      `--listen=127.0.0.1:${clusterPort}`,
      `--listen=[::1]:${clusterPort}`,
      `--forward=clusterset.local=127.0.0.1:${fleetPort}`,
    ),
  ]);
});

afterAll(() => stack.disposeAsync());

/** Starts a program of the executable and waits until it reports that it serves. */
async function run(program: string, ...flags: readonly string[]): Promise<ChildProcess> {
  const args = [
    MAIN,
    program,
    "--kubeconfig",
    api.kubeconfig,
    "--ready-fd",
    "3",
    "--log-level",
    "error",
    ...flags,
  ];
  const child = start(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "pipe"] });
  stack.defer(() => stopped(child));
  const ready = child.stdio[3] as Readable;
  const text = await new Promise<string>((resolve) => {
    ready.once("data", (chunk: Buffer) => resolve(chunk.toString()));
    ready.once("end", () => resolve("ended"));
  });
  expect(text).toBe("ready\n");
  return child;
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  await new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
    // The second signal ends a program at once.
    child.kill("SIGINT");
  });
}

async function ask(port: number, name: string, type: number = TYPE.A) {
  const server = { host: "127.0.0.1", port, family: "IPv4" as const };
  return said(await exchange({ name, type, class: 1 }, { server, timeoutMs: 5000, clock: systemClock }));
}

describe("the DNS programs with an API server", () => {
  it("answer for the cluster from the start", async () => {
    const name = "kubernetes.default.svc.cluster.local.";
    const { spec } = await client.get(SERVICES, objectKey("default", "kubernetes"));
    expect(await ask(clusterPort, name)).toMatchObject({ answer: [`${name} 5 IN A ${spec?.clusterIP}`] });
  });

  it("answer SERVFAIL for the fleet until its CRDs are installed, and then at once with the records", async () => {
    expect((await ask(fleetPort, HELLO)).rcode).toBe("SERVFAIL");
    expect((await ask(clusterPort, HELLO)).rcode).toBe("SERVFAIL");
    for (const crd of MULTICLUSTER_CRDS) await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd);
    await expect.poll(async () => (await ask(fleetPort, HELLO)).rcode, LIMIT).toBe("NXDOMAIN");
  });

  it("follow an imported service", async () => {
    const spec = {
      type: "ClusterSetIP" as const,
      ports: [{ name: "http", port: 80, protocol: "TCP" as const }],
      ips: ["10.96.7.7"],
    };
    await client.create(MCS_SERVICE_IMPORTS, { metadata: { name: "hello", namespace: "work" }, spec });
    for (const port of [fleetPort, clusterPort]) {
      await expect.poll(async () => (await ask(port, HELLO)).answer.length, LIMIT).toBe(1);
    }
    expect((await ask(fleetPort, `_http._tcp.${HELLO}`, TYPE.SRV)).answer).toEqual([
      `_http._tcp.${HELLO} 5 IN SRV 0 1 80 ${HELLO}`,
    ]);
  });

  it("follow the endpoints of a headless one", async () => {
    const DB = "db.work.svc.clusterset.local.";
    await client.create(MCS_SERVICE_IMPORTS, {
      metadata: { name: "db", namespace: "work" },
      spec: { type: "Headless", ports: [] },
    });
    await client.create(ENDPOINT_SLICES, {
      metadata: {
        name: "db-east",
        namespace: "work",
        labels: {
          "multicluster.kubernetes.io/service-name": "db",
          "multicluster.kubernetes.io/source-cluster": "east",
        },
      },
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.1.0.1"], hostname: "db-0" }],
      ports: [{ name: "sql", port: 5432, protocol: "TCP" }],
    });
    await expect.poll(async () => (await ask(fleetPort, `db-0.east.${DB}`)).answer.length, LIMIT).toBe(1);
    await client.delete(ENDPOINT_SLICES, objectKey("work", "db-east"));
    await expect.poll(async () => (await ask(fleetPort, DB)).rcode, LIMIT).toBe("NXDOMAIN");
  });

  it("keep answering while the API server is down, and catch up when it is back", async () => {
    const { port } = api;
    await api.close();
    expect((await ask(fleetPort, HELLO)).answer).toHaveLength(1);
    expect((await ask(clusterPort, "kubernetes.default.svc.cluster.local.")).answer).toHaveLength(1);
    api = await startApiServer({ dataDir, port });
    await client.delete(MCS_SERVICE_IMPORTS, objectKey("work", "hello"));
    await expect.poll(async () => (await ask(fleetPort, HELLO)).rcode, LIMIT).toBe("NXDOMAIN");
  });
});

describe("fairlead dns check", () => {
  const check = (...flags: readonly string[]) =>
    exec(process.execPath, [MAIN, "dns", "check", "--timeout", "0", ...flags], {
      allowFailure: true,
      timeoutMs: 20_000,
    });

  it(
    "passes where the names of the cluster set are answered, directly and through the cluster's DNS",
    LIMIT,
    async () => {
      for (const port of [fleetPort, clusterPort])
        expect(await check("--server", `127.0.0.1:${port}`)).toMatchObject({
          exitCode: 0,
          stderr: "names of clusterset.local resolve (version 1.0.0)\n",
        });
      expect(await check("--server", `localhost:${clusterPort}`)).toMatchObject({ exitCode: 0 });
    },
  );

  it(
    "passes only once every server that is named has the zone, and with --gone once none has",
    LIMIT,
    async () => {
      const late = `127.0.0.1:${await freePort()}`;
      const both = ["--server", `127.0.0.1:${fleetPort}`, "--also", late];
      expect((await check(...both)).stderr).toContain(`${late} does not answer for clusterset.local`);
      const waiting = check(...both, "--timeout", "10");
      await run("dns", `--listen=${late}`);
      expect(await waiting).toMatchObject({ exitCode: 0 });
      expect((await check(...both, "--gone")).stderr).toContain("still answers for clusterset.local");
      const other = [...both, "--zone", "other.local", "--gone"];
      expect(await check(...other)).toMatchObject({
        exitCode: 0,
        stderr: "no server answers for other.local\n",
      });
    },
  );

  it("queries the given server for a name, and reports that server", LIMIT, async () => {
    const server = `127.0.0.1:${clusterPort}`;
    const name = "kubernetes.default.svc.cluster.local";
    expect(await check("--server", server, "--name", name)).toMatchObject({ exitCode: 0 });
    const { exitCode, stderr } = await check("--server", server, "--name", `no-${name}`);
    expect(exitCode).toBe(1);
    expect(stderr.trim()).toMatch(
      new RegExp(`^fairlead dns check: ${server} does not resolve no-${name}: \\w+ ENOTFOUND no-${name}$`),
    );
  });

  it("fails if they are not, and reports server and query", LIMIT, async () => {
    const refused = await check("--server", `127.0.0.1:${clusterPort}`, "--zone", "other.local");
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toMatch(/127\.0\.0\.1:\d+ does not answer for other\.local:/);
  });
});

it(
  "a DNS server that is asked to stop is not ready and keeps answering, until it is asked again",
  LIMIT,
  async () => {
    const [port, metrics] = [await freePort(), await freePort()];
    const child = await run("dns", `--listen=127.0.0.1:${port}`, `--metrics=127.0.0.1:${metrics}`);
    const readyz = async (): Promise<number> => (await fetch(`http://127.0.0.1:${metrics}/readyz`)).status;
    await expect.poll(readyz, LIMIT).toBe(200);
    child.kill("SIGTERM");
    await expect.poll(readyz, LIMIT).toBe(503);
    expect((await ask(port, "dns-version.clusterset.local.", TYPE.TXT)).answer).toHaveLength(1);
    const socket = connectSocket({ host: "127.0.0.1", port });
    await once(socket, "connect");
    socket.destroy();
    expect(child.exitCode).toBeNull();
    const ended = once(child, "exit");
    child.kill("SIGINT");
    expect(await ended).toEqual([130, null]);
  },
);
