import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import type { OpenPod } from "./attachments.ts";
import { hasFailed, judgeHost } from "./host-check.ts";
import { type HostProbe, probeHost, readHostFacts } from "./host-probe.ts";

export interface HostMonitorOptions {
  readonly fleetNetns: string;
  readonly deps: Pick<RuntimeDeps, "clock" | "log">;
  /** This node's own fleet addresses; undefined while the node's part of the data path is not there. */
  readonly own: () => HostProbe["own"] | undefined;
  /** Pods of this node without an interface in `fleet`: the first few. */
  readonly openPods: (stack: DisposableStack, signal: AbortSignal) => Promise<readonly OpenPod[]>;
  /** The condition is another one. */
  readonly onChange: () => void;
}

/** Intervals of the self-test: while all is well, after a failure, and until there is something to test. Unit: milliseconds. */
const WELL_MS = 60_000;
const FAILED_MS = 5000;
const ABSENT_MS = 1000;

/** Tests, again and again, whether the node and its pods reach fleet addresses by the node's route. */
export class HostMonitor implements Component {
  readonly #options: HostMonitorOptions;
  readonly #stop = new AbortController();
  #condition: NewCondition | undefined;
  /** Why the last test could not be carried out. */
  #problem = "";
  #running: Promise<void> = Promise.resolve();

  constructor(options: HostMonitorOptions) {
    this.#options = options;
  }

  /** Of the node's AddressBlock; undefined before the first test. */
  get condition(): NewCondition | undefined {
    return this.#condition;
  }

  async start(signal: AbortSignal): Promise<void> {
    const libc = await loadLibC();
    if (libc !== undefined) this.#running = this.#run(libc, AbortSignal.any([signal, this.#stop.signal]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(libc: LibC, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options.deps;
    while (!signal.aborted) {
      let waitMs = WELL_MS;
      try {
        waitMs = await this.#test(libc, signal);
        this.#problem = "";
      } catch (error) {
        const problem = messageOf(error);
        if (!signal.aborted && problem !== this.#problem)
          log.warn("cannot test the node's route to fleet addresses", { error: problem });
        this.#problem = problem;
      }
      await delay(clock, waitMs, signal).catch(() => {});
    }
  }

  /** @returns When to test again. Unit: milliseconds. */
  async #test(libc: LibC, signal: AbortSignal): Promise<number> {
    const { deps, fleetNetns, own, openPods, onChange } = this.#options;
    const addresses = own();
    if (addresses === undefined) {
      this.#condition = undefined;
      return ABSENT_MS;
    }
    using stack = new DisposableStack();
    const origins = [{ pod: undefined, netns: undefined }, ...(await openPods(stack, signal))];
    const probe = { libc, clock: deps.clock, fleetNetns, own: addresses, origins };
    const echoes = await probeHost(probe, signal);
    const isFailed = hasFailed(echoes);
    const condition = judgeHost(echoes, isFailed ? await readHostFacts(addresses, signal) : undefined);
    if (!sameJson(condition, this.#condition)) {
      const { reason, message } = condition;
      if (isFailed) deps.log.warn("the node's route to fleet addresses is broken", { reason, message });
      else if (this.#condition?.status === "False")
        deps.log.info("the node's route to fleet addresses works");
      this.#condition = condition;
      onChange();
    }
    return isFailed ? FAILED_MS : WELL_MS;
  }
}
