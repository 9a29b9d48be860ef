import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PodRuntime, PodSandbox } from "./runtime.ts";

export interface TestPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly hostNetwork?: boolean;
}

/** A container runtime without pods. */
export interface RuntimeUnderTest extends AsyncDisposable {
  readonly runtime: PodRuntime;
  readonly name: string;
  run(pod: TestPod): Promise<void>;
  end(uid: string): Promise<void>;
  /** Names of the devices that a program sees in the namespace. */
  devices(netns: string): Promise<readonly string[]>;
}

/** The contract of every container runtime. */
export function describePodRuntime(name: string, make: () => Promise<RuntimeUnderTest>): void {
  const signal = AbortSignal.timeout(110_000);
  const first = { uid: "0000-first", namespace: "work", name: "web" };
  const second = { uid: "0000-second", namespace: "work", name: "db" };
  const onHost = { uid: "0000-host", namespace: "kube-system", name: "proxy", hostNetwork: true };

  describe(name, () => {
    let tested: RuntimeUnderTest;
    beforeAll(async () => {
      tested = await make();
      for (const pod of [first, second, onHost]) await tested.run(pod);
    });
    afterAll(() => tested[Symbol.asyncDispose]());

    const find = async (uid: string): Promise<PodSandbox> => {
      const found = (await tested.runtime.sandboxes(signal)).find((it) => it.podUid === uid);
      if (found === undefined) throw new Error(`no sandbox of ${uid}`);
      return found;
    };
    const inodeOf = async (uid: string): Promise<number | undefined> => {
      using netns = await tested.runtime.openNetns(await find(uid), signal);
      return netns?.inode;
    };

    it("names itself and its version", async () => {
      const version = await tested.runtime.version(signal);
      expect(version).toMatchObject({ name: tested.name });
      expect(version.version).toMatch(/\d/);
    });

    it("lists each pod once, with its names and whether it is on the host network", async () => {
      const listed = await tested.runtime.sandboxes(signal);
      expect(listed.toSorted((a, b) => (a.podUid < b.podUid ? -1 : 1))).toMatchObject(
        [first, onHost, second].map((pod) => ({
          podUid: pod.uid,
          podNamespace: pod.namespace,
          podName: pod.name,
          hostNetwork: pod === onHost,
        })),
      );
      expect(new Set(listed.map((it) => it.id)).size).toBe(3);
    });

    it("opens the network namespace of a pod, in which its eth0 is", async () => {
      using netns = await tested.runtime.openNetns(await find(first.uid), signal);
      expect(await tested.devices(netns?.path ?? "")).toEqual(expect.arrayContaining(["lo", "eth0"]));
    });

    it("opens the same namespace each time, and another one for each pod", async () => {
      const inode = await inodeOf(first.uid);
      expect(inode).toBeGreaterThan(0);
      expect(await inodeOf(first.uid)).toBe(inode);
      expect(await inodeOf(second.uid)).not.toBe(inode);
    });

    it("opens nothing for a pod on the host network", async () => {
      const sandbox = await find(onHost.uid);
      expect(sandbox.netns).toBeUndefined();
      expect(await tested.runtime.openNetns(sandbox, signal)).toBeUndefined();
    });

    it("neither lists nor opens a pod that has ended, also when another one has its name", async () => {
      const old = await find(second.uid);
      await tested.end(second.uid);
      await tested.run({ ...second, uid: "0000-third" });
      const listed = await tested.runtime.sandboxes(signal);
      expect(listed.map((it) => it.podUid)).not.toContain(second.uid);
      expect(await tested.runtime.openNetns(old, signal)).toBeUndefined();
      expect(await inodeOf("0000-third")).toBeGreaterThan(0);
    });

    it("ends a call when its signal aborts", async () => {
      await expect(tested.runtime.sandboxes(AbortSignal.abort())).rejects.toMatchObject({ code: "ABORTED" });
    });
  });
}
