/** The network namespaces of pods, found through the container runtime's socket. */

import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { addVethPair, replaceAddress } from "@fairlead/os/iproute/lines.ts";
import { runIpLines } from "@fairlead/os/iproute/driver.ts";
import { exec } from "@fairlead/base/exec.ts";
import { attachPod } from "@fairlead/fleet/dataplane/pod-attachment/attach.ts";
import { createCriClient } from "@fairlead/os/cri/client.ts";
import { describePodRuntime, type RuntimeUnderTest } from "@fairlead/os/cri/contract.ts";
import { deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { CriServer, type RunningPod } from "@fairlead/lab/node/cri/server.ts";
import { cannotUseContainerd, startContainerd } from "../support/containerd.ts";
import { describeOnKernel, devicesIn, netnsFixture } from "../support/netns-fixture.ts";

const signal = AbortSignal.timeout(110_000);

/** Pods that are nothing but their network namespaces. */
async function startLabServer(): Promise<RuntimeUnderTest> {
  await using stack = new AsyncDisposableStack();
  const fixture = stack.use(netnsFixture());
  // Longer than the path of a socket may be.
  const folder = mkdtempSync(`/run/${"fairlead-cri-".padEnd(120, "x")}`);
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const pods = new Map<string, RunningPod>();
  const socket = join(folder, "cri.sock");
  const server = stack.use(new CriServer({ socket, pods: () => pods.values() }));
  await server.start();
  const runtime = stack.use(createCriClient({ socket }));
  const kept = stack.move();
  return {
    runtime,
    name: "fairlead-lab",
    run: async ({ uid, namespace, name, hostNetwork = false }) => {
      const netns = hostNetwork ? undefined : await fixture.netns(uid);
      if (netns !== undefined)
        await runIpLines([addVethPair({ device: "eth0" }, { device: "peer" })], { netns, signal });
      pods.set(uid, { uid, namespace, name, netns });
    },
    end: async (uid) => {
      const netns = pods.get(uid)?.netns;
      pods.delete(uid);
      if (netns !== undefined) await deleteNetns(netns, signal);
    },
    devices: (netns) => devicesIn(netns),
    [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose](),
  };
}

/** What a runtime could leave behind. */
async function machine(): Promise<object> {
  const programs = readdirSync("/proc").flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readlinkSync(`/proc/${pid}/exe`)] : [];
    } catch {
      return [];
    }
  });
  return {
    mounts: readFileSync("/proc/self/mountinfo", "utf8"),
    devices: await devicesIn("/proc/self/ns/net"),
    programs: programs.filter((it) => /containerd|runc|pause/.test(it)),
    folders: [...readdirSync("/run"), ...readdirSync("/var/lib")],
  };
}

describeOnKernel("container runtimes", () => {
  describePodRuntime("the server of a lab node", startLabServer);

  describe.skipIf(cannotUseContainerd !== undefined)(
    `Debian's containerd${cannotUseContainerd === undefined ? "" : ` (skipped: ${cannotUseContainerd})`}`,
    () => {
      describePodRuntime("with runc", () => startContainerd(signal));

      it("runs a pod that gets a fleet address without a restart", async () => {
        await using stack = new AsyncDisposableStack();
        const fleet = await stack.use(netnsFixture()).netns("fleet");
        const own = ["10.112.1.1/32", "fd00:112:0:1::1/128"].map((it) => replaceAddress("lo", it));
        await runIpLines(own, { netns: fleet, signal });
        const containerd = stack.use(await startContainerd(signal));
        await containerd.run({ uid: "0000-attached", namespace: "work", name: "web" });
        const [sandbox] = await containerd.runtime.sandboxes(signal);
        using netns = sandbox && (await containerd.runtime.openNetns(sandbox, signal));
        const place = { fleet, pod: netns?.path ?? "", signal };
        const link = {
          podUID: sandbox?.podUid ?? "",
          addresses: ["10.112.1.5", "fd00:112:0:1::5"],
          ownAddresses: [],
          prefixes: ["10.112.0.0/12", "fd00:112::/48"],
          mtu: 1400,
        };
        expect(await attachPod(link, place)).toBe(true);
        expect(await attachPod(link, place)).toBe(false);
        for (const it of link.addresses) {
          const ping = inNetns(fleet, "ping", ["-c", "1", "-W", "3", "-n", it]);
          await exec(ping.command, ping.args, { signal });
        }
      });

      it("is started by a test without a trace", async () => {
        const before = await machine();
        await using stack = new AsyncDisposableStack();
        const containerd = stack.use(await startContainerd(signal));
        await containerd.run({ uid: "0000-trace", namespace: "work", name: "web" });
        expect(await machine()).not.toEqual(before);
        await stack[Symbol.asyncDispose]();
        await expect.poll(machine, { timeout: 10_000 }).toEqual(before);
      });
    },
  );
});
