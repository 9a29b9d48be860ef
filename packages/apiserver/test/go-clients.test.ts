import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { launchProgram, type Program } from "./program.ts";

/**
 * The programs of packages/apiserver/test/go, which are client-go and controller-runtime at work, on a server in a process of its own.
 * They are built where there is a Go toolchain that can have their modules.
 */

const SOURCE = join(import.meta.dirname, "go");
const CONFIG_MAPS = "/api/v1/namespaces/go/configmaps";
const RESTARTS = 4;
/** Go compiles client-go once per machine. Unit: milliseconds. */
const BUILD_MS = 600_000;

/** Why they cannot be built here; empty where they can. */
const OBSTACLE = await exec("go", ["mod", "download"], { cwd: SOURCE, timeoutMs: 120_000 }).then(
  () => "",
  (error: unknown) => `no Go toolchain with the modules of packages/apiserver/test/go: ${String(error)}`,
);

/** What a Go program says, line by line. */
class Talk {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string, undefined>;

  constructor(child: ChildProcess) {
    this.child = child;
    this.#lines = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  }

  async next(): Promise<unknown> {
    const line = await this.#lines.next();
    if (line.done === true) throw new Error("the program has ended");
    return JSON.parse(line.value);
  }

  /** The next thing said that `is` holds for. */
  async until(is: (said: never) => boolean): Promise<void> {
    while (!is((await this.next()) as never));
  }

  ask(): Promise<unknown> {
    this.child.stdin?.write("\n");
    return this.next();
  }

  /** Closes its input and waits for its end. Value: the exit code. */
  async end(): Promise<unknown> {
    const ended = once(this.child, "exit");
    this.child.stdin?.end();
    return (await ended)[0];
  }
}

describe.skipIf(OBSTACLE !== "")(OBSTACLE === "" ? "Go programs" : OBSTACLE, () => {
  let dir = "";
  let server: Program;
  const talks: Talk[] = [];

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "go-clients-"));
    server = await launchProgram(dir);
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "go" } };
    expect((await server.client.call("POST", "/api/v1/namespaces", { body: namespace })).code).toBe(201);
    await exec("go", ["build", "-o", join(dir, "clients"), "."], { cwd: SOURCE, timeoutMs: BUILD_MS });
  }, BUILD_MS);
  afterAll(async () => {
    for (const it of talks) it.child.kill("SIGKILL");
    server.client.close();
    server.child.kill("SIGKILL");
    await server.ended;
    await rm(dir, { recursive: true, force: true });
  });

  function talk(program: string): Talk {
    const child = start(join(dir, "clients"), [program], {
      stdio: ["pipe", "pipe", "ignore"],
      env: { KUBECONFIG: join(dir, "admin.kubeconfig") },
    });
    const made = new Talk(child);
    talks.push(made);
    return made;
  }

  async function restart(): Promise<void> {
    server.client.close();
    server.child.kill("SIGKILL");
    await server.ended;
    server = await launchProgram(dir, server.port);
  }

  const configMap = (name: string, text: string, labels = {}): object => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, labels },
    data: { text },
  });

  it("keep an informer's cache equal to the server, however often it is killed", async () => {
    const informer = talk("informer");
    expect(await informer.next()).toEqual({ synced: true });
    for (let round = 0; round < RESTARTS; round += 1) {
      for (let at = 0; at < 40; at += 1) {
        const name = `c${at}`;
        const path = `${CONFIG_MAPS}/${name}`;
        const body = configMap(name, `${round}`);
        if (round === 0) await server.client.call("POST", CONFIG_MAPS, { body });
        else if (at % 7 === round) await server.client.call("DELETE", path);
        else if (at % 3 === 0) await server.client.call("PUT", path, { body });
      }
      await restart();
    }
    const { items } = (await server.client.call("GET", CONFIG_MAPS)).json;
    const held = Object.fromEntries(items.map((it) => [it.metadata.name, it.metadata.resourceVersion]));
    await expect
      .poll(async () => ((await informer.ask()) as { held: unknown }).held, {
        timeout: 60_000,
        interval: 100,
      })
      .toEqual(held);
    expect(await informer.end()).toBe(0);
  }, 90_000);

  it("elect a leader, and the next one when it resigns, also after an outage of the server", async () => {
    const leader = talk("leader");
    const first = (await leader.next()) as { leads: string };
    leader.child.stdin?.write("\n");
    await leader.until((said: { stopped?: string }) => said.stopped === first.leads);
    const second = (await leader.next()) as { leads: string };
    expect(second.leads).toMatch(/^candidate-\d$/);
    expect(second.leads).not.toBe(first.leads);
    await restart();
    leader.child.stdin?.write("\n");
    await leader.until((said: { leads?: string }) => said.leads !== undefined && said.leads !== second.leads);
    expect(await leader.end()).toBe(0);
  }, 60_000);

  it("apply configurations: own fields, conflict by field, take over by force, and extract what they own", async () => {
    const apply = talk("apply");
    expect(await apply.next()).toEqual({ replicas: 2, unchanged: true });
    expect(await apply.next()).toEqual({ conflict: ["FieldManagerConflict .spec.replicas"] });
    expect(await apply.next()).toEqual({
      replicas: 5,
      ownerHoldsReplicas: false,
      ownerHoldsImage: "nginx",
    });
    expect(await apply.next()).toEqual({ unchanged: true });
    expect(await apply.end()).toBe(0);
  });

  it("run a controller-runtime manager: owned objects are created, recreated and deleted; finalizers hold until they are removed", async () => {
    const manager = talk("manager");
    const secret = "/api/v1/namespaces/go/secrets/source";
    const labels = { copy: "yes" };
    await server.client.call("POST", CONFIG_MAPS, { body: configMap("source", "one", labels) });
    expect(await manager.next()).toEqual({ copied: "source", how: "created" });
    const body = { data: { text: "two" } };
    const headers = { "Content-Type": "application/merge-patch+json" };
    await server.client.call("PATCH", `${CONFIG_MAPS}/source`, { body, headers });
    expect(await manager.next()).toEqual({ copied: "source", how: "updated" });
    await server.client.call("DELETE", secret);
    expect(await manager.next()).toEqual({ copied: "source", how: "created" });
    await restart();
    await server.client.call("DELETE", secret);
    expect(await manager.next()).toEqual({ copied: "source", how: "created" });
    expect((await server.client.call("GET", secret)).json["data"]).toEqual({
      text: Buffer.from("two").toString("base64"),
    });
    await server.client.call("DELETE", `${CONFIG_MAPS}/source`);
    expect(await manager.next()).toEqual({ released: "source" });
    await expect
      .poll(async () => (await server.client.call("GET", secret)).code, { timeout: 10_000 })
      .toBe(404);
    expect(await manager.end()).toBe(0);
  }, 60_000);
});
