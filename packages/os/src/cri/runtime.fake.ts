import { abortError } from "@fairlead/base/clock.ts";
import type { OpenNetns } from "#netns/open.ts";
import type { PodRuntime, PodSandbox } from "./runtime.ts";

/** Pods and network namespaces in memory. */
export class FakePodRuntime implements PodRuntime {
  readonly #sandboxes = new Map<string, { readonly sandbox: PodSandbox; readonly inode: number }>();
  #count = 0;

  /** The pod starts; it has the path of its network namespace from its uid unless told otherwise. */
  run(pod: Pick<PodSandbox, "podUid" | "podNamespace" | "podName"> & Partial<PodSandbox>): void {
    this.#count += 1;
    const sandbox = {
      id: `sandbox-${this.#count}`,
      hostNetwork: false,
      runtimeHandler: "",
      netns: pod.hostNetwork === true ? undefined : `/run/netns/${pod.podUid}`,
      ...pod,
    };
    this.#sandboxes.set(pod.podUid, { sandbox, inode: this.#count });
  }

  end(podUid: string): void {
    this.#sandboxes.delete(podUid);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async version(signal: AbortSignal): Promise<{ readonly name: string; readonly version: string }> {
    check(signal);
    return { name: "fake", version: "1" };
  }

  async sandboxes(signal: AbortSignal): Promise<readonly PodSandbox[]> {
    check(signal);
    return [...this.#sandboxes.values()].map((it) => it.sandbox);
  }

  async openNetns(sandbox: PodSandbox, signal: AbortSignal): Promise<OpenNetns | undefined> {
    check(signal);
    const found = this.#sandboxes.get(sandbox.podUid);
    if (found?.sandbox.id !== sandbox.id || sandbox.netns === undefined) return undefined;
    return { path: sandbox.netns, inode: found.inode, [Symbol.dispose]: () => {} };
  }
}

function check(signal: AbortSignal): void {
  if (signal.aborted) throw abortError(signal);
}
