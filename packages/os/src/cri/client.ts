import { existsSync } from "node:fs";
import type { CallOptions } from "@connectrpc/connect";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { netnsInode } from "#netns/netns.ts";
import { openNetns, type OpenNetns } from "#netns/open.ts";
import { connectService } from "./connection.ts";
import { criError, isNotFound } from "./errors.ts";
import { readSandbox } from "./info.ts";
import type { PodRuntime, PodSandbox } from "./runtime.ts";
import { type PodSandboxItem, RuntimeService, SANDBOX_STATE } from "./service.ts";

/**
 * Sockets of the runtimes that serve the CRI: cri-dockerd, K3s and RKE2, k0s, CRI-O, containerd. That of containerd is the last one: Docker
 * and k0s have one there, too, which does not serve the CRI.
 */
const SOCKETS = [
  "/run/cri-dockerd.sock",
  "/run/k3s/containerd/containerd.sock",
  "/run/k0s/containerd.sock",
  "/run/crio/crio.sock",
  "/run/containerd/containerd.sock",
] as const;
/** Where a container has the node's folder `/run`. */
const HOST = "/host";
const KNOWN = [...SOCKETS.map((it) => `${HOST}${it}`), ...SOCKETS];

/**
 * Returns the first socket that exists.
 *
 * @param candidates - Default: those of the runtimes, of the node before those of this container.
 *
 * @throws {FleetError} `CRI_UNAVAILABLE`
 */
export function findCriSocket(candidates: readonly string[] = KNOWN): string {
  const found = candidates.find((it) => existsSync(it));
  if (found !== undefined) return found;
  throw new FleetError(
    "CRI_UNAVAILABLE",
    `cannot find the socket of the container runtime: none of ${candidates.join(", ")} exists; mount the runtime's socket, or name it`,
    { retriable: true },
  );
}

export interface CriOptions {
  /** Path of the runtime's unix socket. */
  readonly socket: string;
  /** Longest time that one call may take. Unit: milliseconds. Default: 5 000. */
  readonly timeoutMs?: number;
}

/** Connects when it is first used, and again after the runtime has restarted. */
export function createCriClient(options: CriOptions): PodRuntime {
  return new CriClient(options);
}

class CriClient implements PodRuntime {
  readonly #socket: string;
  readonly #timeoutMs: number;
  readonly #connection: ReturnType<typeof connectService<typeof RuntimeService>>;
  /** What does not change as long as the sandbox is ready, by its id. */
  #known: ReadonlyMap<string, PodSandbox> = new Map();

  constructor({ socket, timeoutMs = 5_000 }: CriOptions) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    this.#connection = connectService(RuntimeService, socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection[Symbol.dispose]();
  }

  async version(signal: AbortSignal): Promise<{ readonly name: string; readonly version: string }> {
    const answer = await this.#call("Version", signal, (options) =>
      this.#connection.client.version({}, options),
    );
    return { name: answer.runtimeName, version: answer.runtimeVersion };
  }

  async sandboxes(signal: AbortSignal): Promise<readonly PodSandbox[]> {
    const filter = { state: { state: SANDBOX_STATE.ready } };
    const { items } = await this.#call("ListPodSandbox", signal, (options) =>
      this.#connection.client.listPodSandbox({ filter }, options),
    );
    const found = await Promise.all(
      newestOfEachPod(items).map(async ({ id }) => this.#known.get(id) ?? this.#read(id, signal)),
    );
    const ready = found.filter((it) => it !== undefined);
    this.#known = new Map(ready.map((it) => [it.id, it]));
    return ready;
  }

  async openNetns(sandbox: PodSandbox, signal: AbortSignal): Promise<OpenNetns | undefined> {
    if (sandbox.netns === undefined) return undefined;
    using stack = new DisposableStack();
    const open = stack.use(openNetns(sandbox.netns));
    if (open === undefined) return undefined;
    const now = await this.#read(sandbox.id, signal);
    const isSame = now?.netns === sandbox.netns && (await netnsInode(sandbox.netns)) === open.inode;
    // A runtime that reports the machine's own network by mistake must not make us change it.
    if (!isSame || open.inode === (await netnsInode("/proc/self/ns/net"))) return undefined;
    stack.move();
    return open;
  }

  /** Undefined if the sandbox is not ready any more. */
  async #read(id: string, signal: AbortSignal): Promise<PodSandbox | undefined> {
    try {
      const answer = await this.#call("PodSandboxStatus", signal, (options) =>
        this.#connection.client.podSandboxStatus({ podSandboxId: id, verbose: true }, options),
      );
      return readSandbox(answer);
    } catch (error) {
      if (hasCode(error, "CRI_FAILED") && isNotFound(error.cause)) return undefined;
      throw error;
    }
  }

  async #call<T>(
    method: string,
    signal: AbortSignal,
    call: (options: CallOptions) => Promise<T>,
  ): Promise<T> {
    try {
      return await call({ signal, timeoutMs: this.#timeoutMs });
    } catch (error) {
      throw criError(error, { method, socket: this.#socket, timeoutMs: this.#timeoutMs, signal });
    }
  }
}

/** A pod whose sandbox was made again has the old one for a moment. */
function newestOfEachPod(items: readonly PodSandboxItem[]): readonly PodSandboxItem[] {
  const newest = new Map<string, PodSandboxItem>();
  for (const item of items) {
    const uid = item.metadata?.uid ?? "";
    const other = newest.get(uid);
    if (other === undefined || (other.metadata?.attempt ?? 0) < (item.metadata?.attempt ?? 0))
      newest.set(uid, item);
  }
  newest.delete("");
  return [...newest.values()];
}
