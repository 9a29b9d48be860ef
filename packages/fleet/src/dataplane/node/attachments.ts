import type { Allocation, ParallelNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { PodRuntime } from "@fairlead/os/cri/runtime.ts";
import { byText } from "@fairlead/base/text.ts";
import { PodLinks } from "../pod-attachment/pod-links.ts";

export interface AttachmentsOptions {
  /** Undefined: no container runtime is known. */
  readonly runtime: PodRuntime | undefined;
  readonly fleetNetns: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** While the sandbox of a pod starts, it is looked for this often. Unit: milliseconds. */
const SANDBOX_POLL_MS = 500;

/** The fleet addresses of a pod, and its own ones. */
export interface Attachable extends Allocation {
  readonly ownAddresses: readonly string[];
}

/** Other pods that are opened at once. */
const MAX_OTHERS = 3;

/** A pod with its network namespace. */
export interface OpenPod {
  /** "namespace/name". */
  readonly pod: string;
  /** File of the namespace, while it is open. */
  readonly netns: string;
}

export interface Attached {
  /** Whether the pod has its fleet addresses on an interface of its own, or will have; others are reached by translation. */
  readonly isAttached: (podUID: string) => boolean;
  /** Whether its fleet addresses lead to the pod now, in either way. */
  readonly isReachable: (podUID: string) => boolean;
  /** When to look again. Unit: milliseconds. */
  readonly dueInMs: number;
}

/** Interfaces of the node's pods in `fleet`. A pod that cannot have one is reached by translation of its address. */
export class Attachments {
  readonly #options: AttachmentsOptions;
  readonly #links: PodLinks | undefined;
  /** Why pods have none, as it was logged last. */
  #problems: ReadonlyMap<string, string> = new Map();
  /** UIDs of pods that have one. */
  #attached: ReadonlySet<string> = new Set();

  constructor(options: AttachmentsOptions) {
    const { runtime, clock, fleetNetns } = options;
    this.#options = options;
    this.#links = runtime === undefined ? undefined : new PodLinks({ runtime, clock, fleet: fleetNetns });
  }

  async apply(
    pods: readonly Attachable[],
    { ipv4, ipv6 }: ParallelNetwork,
    mtu: number,
    signal: AbortSignal,
  ): Promise<Attached> {
    if (this.#links === undefined)
      return { isAttached: () => false, isReachable: () => true, dueInMs: Number.POSITIVE_INFINITY };
    const links = pods.map((it) => ({
      podUID: it.podUID,
      addresses: [it.ipv4, it.ipv6],
      ownAddresses: it.ownAddresses,
      prefixes: [ipv4, ipv6],
      mtu,
    }));
    try {
      const { attached, problems } = await this.#links.sync(links, signal);
      this.#note(problems);
      this.#attached = attached;
      const isStarting = links.some((it) => !attached.has(it.podUID) && !problems.has(it.podUID));
      return {
        isAttached: (podUID) => !problems.has(podUID),
        isReachable: (podUID) => attached.has(podUID) || problems.has(podUID),
        dueInMs: isStarting ? SANDBOX_POLL_MS : Number.POSITIVE_INFINITY,
      };
    } catch (error) {
      signal.throwIfAborted();
      this.#options.log.warn("cannot read the pods of the container runtime; interfaces stay as they are", {
        error: messageOf(error),
      });
      const problems = this.#problems;
      return {
        isAttached: (podUID) => !problems.has(podUID),
        isReachable: (podUID) => problems.has(podUID),
        dueInMs: SANDBOX_POLL_MS,
      };
    }
  }

  /** Some of the pods that have none, for the self-test. */
  async openOthers(stack: DisposableStack, signal: AbortSignal): Promise<readonly OpenPod[]> {
    const { runtime } = this.#options;
    const sandboxes = (await runtime?.sandboxes(signal)) ?? [];
    const others = sandboxes
      .filter(({ podUid, hostNetwork }) => !hostNetwork && !this.#attached.has(podUid))
      .toSorted((a, b) => byText(a.podUid, b.podUid));
    const open: OpenPod[] = [];
    for (const it of others.slice(0, MAX_OTHERS)) {
      const netns = await runtime?.openNetns(it, signal);
      if (netns !== undefined)
        open.push({ pod: `${it.podNamespace}/${it.podName}`, netns: stack.use(netns).path });
    }
    return open;
  }

  /** Detaches all pods. */
  async removeAll(signal: AbortSignal): Promise<void> {
    await this.#links?.sync([], signal);
  }

  #note(problems: ReadonlyMap<string, string>): void {
    for (const [podUID, problem] of problems)
      if (this.#problems.get(podUID) !== problem)
        this.#options.log.warn("a pod has no interface in the parallel network; its address is translated", {
          podUID,
          problem,
        });
    this.#problems = problems;
  }
}
