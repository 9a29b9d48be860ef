import { type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { launchProgram } from "./program.ts";

const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";
let child: ChildProcess | undefined;
let dir = "";

afterEach(async () => {
  child?.kill("SIGKILL");
  await rm(dir, { recursive: true, force: true });
});

function configMap(name: string, bytes: number): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { x: "x".repeat(bytes) } };
}

/** In a process of its own: a client in the server's own does not send before the server has seen its answer written. */
it("a kept connection serves a series of writes of any size, and large lists in between", async () => {
  dir = await mkdtemp(join(tmpdir(), "apiserver-"));
  const { client, child: started } = await launchProgram(dir, 0, ["--journal", "none"]);
  child = started;
  for (const [kilobytes, times] of [
    [20, 20],
    [100, 50],
    [300, 50],
    [900, 20],
  ] as const) {
    const name = `of-${kilobytes}`;
    await client.call("POST", CONFIG_MAPS, { body: configMap(name, 1000) });
    for (let at = 0; at < times; at += 1) {
      const answer = await client.call("PUT", `${CONFIG_MAPS}/${name}`, {
        body: configMap(name, kilobytes * 1000),
      });
      expect(answer.code).toBe(200);
    }
  }
  for (let at = 0; at < 7; at += 1)
    await client.call("POST", CONFIG_MAPS, { body: configMap(`part-${at}`, 900_000) });
  const list = await client.call("GET", CONFIG_MAPS);
  expect(list.text.length).toBeGreaterThan(7_000_000);
  const after = await client.call("POST", CONFIG_MAPS, { body: configMap("after", 300_000) });
  expect(after.code).toBe(201);
  const { text } = await client.call("GET", "/metrics");
  expect(text).toContain("# TYPE fairlead_apiserver_client_errors_total counter");
  expect(text).not.toContain("fairlead_apiserver_client_errors_total{");
  client.close();
});
