import { type ChildProcess } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { chmod, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startApiServer } from "#server.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { launchProgram, type Program } from "./program.ts";
import { startTestServer } from "./support.ts";

/** What a server acknowledged is there when the next one starts in the same folder. */

const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";

function configMap(name: string, data: Record<string, string> = {}): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data };
}

describe("a restarted server", () => {
  let dir = "";
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "apiserver-"));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it("has a certificate for the address of its Service, also after the address changed", async () => {
    for (const [range, address] of [
      ["10.96.0.0/16", "10.96.0.1"],
      ["10.50.0.0/24", "10.50.0.1"],
    ] as const) {
      await using test = await startTestServer({ dataDir: dir, serviceRanges: [range] });
      const service = await test.call("GET", "/api/v1/namespaces/default/services/kubernetes");
      expect(service.json.spec["clusterIP"]).toBe(address);
      const certificate = new X509Certificate(await readFile(join(dir, "pki", "apiserver.crt")));
      expect(certificate.checkIP(address)).toBe(address);
    }
  });

  it("has the same objects under the same revisions, and continues counting revisions", async () => {
    const before = await (async () => {
      await using test = await startTestServer({ dataDir: dir, journal: "sqlite" });
      await test.call("POST", CONFIG_MAPS, { body: configMap("kept", { a: "1" }) });
      await test.call("POST", CONFIG_MAPS, { body: configMap("gone") });
      await test.call("DELETE", `${CONFIG_MAPS}/gone`);
      return (await test.call("GET", CONFIG_MAPS)).json;
    })();
    await using test = await startTestServer({ dataDir: dir, journal: "sqlite" });
    const after = (await test.call("GET", CONFIG_MAPS)).json;
    expect(after.items).toEqual(before.items);
    expect(Number(after.metadata.resourceVersion)).toBeGreaterThanOrEqual(
      Number(before.metadata.resourceVersion),
    );
    const made = await test.call("POST", CONFIG_MAPS, { body: configMap("new") });
    expect(Number(made.json.metadata.resourceVersion)).toBeGreaterThan(
      Number(after.metadata.resourceVersion),
    );
  });

  it("lets a watch resume from its last revision", async () => {
    const from = await (async () => {
      await using test = await startTestServer({ dataDir: dir, journal: "sqlite" });
      const list = await test.call("GET", CONFIG_MAPS);
      await test.call("POST", CONFIG_MAPS, { body: configMap("missed") });
      await test.call("DELETE", `${CONFIG_MAPS}/missed`);
      return list.json.metadata.resourceVersion;
    })();
    await using test = await startTestServer({ dataDir: dir, journal: "sqlite" });
    const query = `?watch=1&timeoutSeconds=1&resourceVersion=${from}`;
    const lines = (await test.call("GET", CONFIG_MAPS + query)).text.trim().split("\n");
    const events = lines.map(
      (it) => JSON.parse(it) as { type: string; object: { metadata: { name: string } } },
    );
    expect(events.map((it) => `${it.type} ${it.object.metadata.name}`)).toEqual([
      "ADDED missed",
      "DELETED missed",
    ]);
  });

  it("restores the addresses of Services, and custom resources", async () => {
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "s" },
      spec: { ports: [{ port: 80 }] },
    };
    const services = "/api/v1/namespaces/default/services";
    const ip = await (async () => {
      await using test = await startTestServer({ dataDir: dir, journal: "sqlite" });
      return (await test.call("POST", services, { body: service })).json.spec["clusterIP"] as string;
    })();
    await using test = await startTestServer({ dataDir: dir, journal: "sqlite" });
    const taken = { ...service, metadata: { name: "t" }, spec: { ...service.spec, clusterIP: ip } };
    const refused = await test.call("POST", services, { body: taken });
    expect(refused.json).toMatchObject({ code: 422, details: { causes: [{ field: "spec.clusterIPs" }] } });
  });

  it("writes nothing on a restart without changes, and publishes its address if that changed", async () => {
    const open = (port: number, advertiseAddress: string): ReturnType<typeof startTestServer> =>
      startTestServer({ dataDir: dir, journal: "sqlite", port, advertiseAddress });
    const first = await open(0, "192.0.2.1");
    const { port } = first.server;
    const before = first.server.registry.store.revision;
    await first[Symbol.asyncDispose]();
    const second = await open(port, "192.0.2.1");
    expect(second.server.registry.store.revision).toBe(before);
    await second[Symbol.asyncDispose]();
    await using third = await open(0, "192.0.2.2");
    const slice = await third.call(
      "GET",
      "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    );
    expect(slice.json["endpoints"]).toMatchObject([{ addresses: ["192.0.2.2"] }]);
    expect(slice.json["ports"]).toMatchObject([{ port: third.server.port }]);
    const service = await third.call("GET", "/api/v1/namespaces/default/services/kubernetes");
    expect(service.json.spec["ports"]).toMatchObject([{ port: 443, targetPort: third.server.port }]);
  });

  it("writes files that only their owner can read, and warns about a folder that others can read", async () => {
    await chmod(dir, 0o755);
    const warnings: string[] = [];
    const log = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
    await using _test = await startTestServer({ dataDir: dir, journal: "sqlite", log });
    expect(warnings).toEqual([expect.stringContaining("chmod 700")]);
    const files = await readdir(dir, { recursive: true, withFileTypes: true });
    const names = files.filter((it) => it.isFile()).map((it) => join(it.parentPath, it.name));
    expect(names.map((it) => basename(it))).toEqual(
      expect.arrayContaining(["admin.kubeconfig", "journal.db", "journal.db-wal", "lock.db", "sa.key"]),
    );
    for (const name of names) expect([name, (await stat(name)).mode & 0o777]).toEqual([name, 0o600]);
  });

  it("rejects a folder that another server uses", async () => {
    await using _first = await startTestServer({ dataDir: dir, journal: "sqlite" });
    await expect(startApiServer({ dataDir: dir })).rejects.toMatchObject({ code: "OPTION_INVALID" });
  });
});

describe("a killed server", () => {
  let dir = "";
  let child: ChildProcess | undefined;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "apiserver-"));
  });
  afterEach(async () => {
    child?.kill("SIGKILL");
    await rm(dir, { recursive: true, force: true });
  });

  async function launch(): Promise<Program> {
    const program = await launchProgram(dir);
    child = program.child;
    return program;
  }

  it("has lost no acknowledged write", async () => {
    const first = await launch();
    const acknowledged = new Map<string, string>();
    const deleting = new Set<string>();
    const deleted = new Set<string>();
    let count = 0;
    const write = async (writer: number): Promise<void> => {
      for (let at = 0; ; at += 1) {
        const name = `w${writer}-${at}`;
        const made = await first.client.call("POST", CONFIG_MAPS, {
          body: configMap(name, { at: String(at) }),
        });
        acknowledged.set(name, made.json.metadata.resourceVersion);
        count += 1;
        // Killed in the middle of everything, by the writers themselves.
        if (count === 300) first.child.kill("SIGKILL");
        if (at % 5 !== 4) continue;
        deleting.add(name);
        await first.client.call("DELETE", `${CONFIG_MAPS}/${name}`);
        deleted.add(name);
      }
    };
    const writers = Array.from({ length: 8 }, (_, writer) => write(writer));
    // Each ends by its connection breaking.
    await Promise.allSettled(writers);
    first.client.close();
    expect(acknowledged.size).toBeGreaterThan(250);
    const second = await launch();
    const { json } = await second.client.call("GET", CONFIG_MAPS);
    const found = new Map(json.items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
    for (const [name, revision] of acknowledged) {
      if (deleted.has(name)) expect.soft(found.has(name), `${name} was deleted`).toBe(false);
      // A delete in flight may have been stored without having been acknowledged.
      else if (found.has(name) || !deleting.has(name)) expect.soft(found.get(name), name).toBe(revision);
    }
    second.client.close();
    second.child.kill("SIGTERM");
    expect(await second.ended).toBe(0);
  });
});
