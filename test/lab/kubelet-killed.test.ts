/** A kubelet of a lab that is killed at any moment: the next one completes what it was doing, and nothing is left of it. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { listNetns } from "@fairlead/os/netns/netns.ts";
import { sampleOf } from "../support/sample.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { IDLE, NodeWorld, script } from "./node-world.ts";

/** After the creation and after the deletion of a pod: as long as each takes on a machine that is not busy. */
const MOMENTS_MS = Array.from({ length: 40 }, (_, at) => 15 * at);
const PATIENCE = { timeout: 30_000 };

describeOnKernel("a kubelet of a lab that is killed", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** What pods have on a node: processes, folders, mounts, network namespaces and links. */
  const left = async (): Promise<readonly string[]> => {
    const pods = join(world.dataDir, "pods");
    const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
    return [
      ...world.processes().map((it) => it.line),
      ...readdirSync(pods),
      ...mounts.filter((it) => it.includes(pods)),
      ...(await listNetns(world.dataDir)),
      ...(await world.run("ip", "-o", "link", "show", "type", "veth"))
        .split("\n")
        .filter((it) => it.includes("pod")),
    ];
  };

  it.each(sampleOf(MOMENTS_MS, [8]))(
    "%d ms after the creation and after the deletion of a pod is replaced by one that completes both",
    async (atMs) => {
      const name = `pod-${atMs}`;
      const volumeMounts = [{ name: "shared", mountPath: "/shared" }];
      const init = { ...script("echo made > /shared/it", "init"), volumeMounts };
      const main = { ...script(`[ "$(cat /shared/it)" = made ] && { ${IDLE}; }`), volumeMounts };
      const killed = async (): Promise<void> => {
        await delay(systemClock, atMs, AbortSignal.timeout(PATIENCE.timeout));
        await world.killNode();
        await world.startNode();
      };
      const volumes = [{ name: "shared", emptyDir: {} }];
      await world.createPod(name, [main, script(IDLE, "other")], { initContainers: [init], volumes });
      await killed();
      await world.untilReady(name);
      // What was begun and not reported is replaced, never doubled: each container has its shim and what that waits for.
      const running = (): readonly string[] => world.processes().map((it) => it.line);
      await expect.poll(running, PATIENCE).toHaveLength(4);
      await world.client.delete(PODS, objectKey("default", name));
      await killed();
      await world.until(name, (it) => it === undefined);
      await expect.poll(left, PATIENCE).toEqual([]);
    },
  );
});
