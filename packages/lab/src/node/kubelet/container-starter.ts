import { type Container, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { resolveImage } from "#images/catalogue.ts";
import type { ContainerView } from "../container/runtime.ts";
import { ConfigError, UnsupportedError } from "../pod/environment.ts";
import { fullName } from "../pod/identity.ts";
import { pinSubPaths } from "../pod/sub-path.ts";
import { renderSeconds, type RestartBackoff } from "../pod/restart.ts";
import type { Waiting } from "../pod/status.ts";
import type { ProbeTarget } from "../probe/attempt.ts";
import { containerSpec } from "./container-spec.ts";
import type { NodeContext, PodEvent } from "./context.ts";
import { hookOf } from "./hooks.ts";
import { ImageBackoff } from "./image-backoff.ts";
import type { PodSandbox } from "./pod-sandbox.ts";

/** Starts the containers of one pod, and keeps why those wait that cannot start. */
export class ContainerStarter {
  readonly #context: NodeContext;
  readonly #sandbox: PodSandbox;
  readonly #images: ImageBackoff;
  readonly #waiting = new Map<string, Waiting>();

  constructor(context: NodeContext, sandbox: PodSandbox) {
    this.#context = context;
    this.#sandbox = sandbox;
    this.#images = new ImageBackoff(context.deps.clock);
  }

  get waiting(): ReadonlyMap<string, Waiting> {
    return this.#waiting;
  }

  /** When an image is to be looked for again. Unit: milliseconds since the Unix epoch. */
  get dueAtMs(): number | undefined {
    return this.#images.dueAtMs;
  }

  /** Reports a container that is in back-off. */
  noteBackoff(pod: Pod, run: ContainerView, restarts: RestartBackoff): void {
    const { name } = run;
    if (this.#waiting.get(name)?.reason === "CrashLoopBackOff") return;
    const who = fullName(pod);
    const delay = renderSeconds(restarts.delayMs(run));
    const message = `back-off ${delay} restarting failed container=${name} pod=${who}`;
    this.#waiting.set(name, { reason: "CrashLoopBackOff", message });
    const reported = `Back-off restarting failed container ${name} in pod ${who}`;
    this.#record(pod, { type: "Warning", reason: "BackOff", message: reported });
  }

  async start(
    pod: Pod,
    { container, attempt }: { readonly container: Container; readonly attempt: number },
  ): Promise<void> {
    const { name, image = "", imagePullPolicy: pullPolicy = "IfNotPresent" } = container;
    const { machine, runtime } = this.#context;
    const result = this.#images.resolve({ container: name, image, pullPolicy }, () =>
      resolveImage(image, machine),
    );
    for (const event of result.events) this.#record(pod, event);
    if (!result.found) {
      this.#waiting.set(name, result.waiting);
      return;
    }
    try {
      const spec = containerSpec(
        {
          pod,
          container,
          attempt,
          image: result.program,
          place: this.#sandbox.place(pod),
          netns: this.#sandbox.netnsOf(pod),
          volumes: this.#sandbox.volumes,
          configMap: (it) => this.#sandbox.configMaps.get(it),
          secret: (it) => this.#sandbox.secrets.get(it),
        },
        this.#context,
      );
      await using pinned = await pinSubPaths(spec.binds, { volumes: this.#sandbox.volumes, container: name });
      const run = await runtime.run({ ...spec, binds: pinned.binds });
      this.#waiting.delete(name);
      this.#onStarted(pod, container, run);
    } catch (error) {
      this.#noteFailure(pod, name, error);
      if (!(error instanceof ConfigError)) throw error;
    }
  }

  /** Whatever keeps a container from starting shows in its status. */
  #noteFailure(pod: Pod, name: string, error: unknown): void {
    const isConfig = error instanceof ConfigError && !(error instanceof UnsupportedError);
    const reason = isConfig ? "CreateContainerConfigError" : "CreateContainerError";
    const message = messageOf(error);
    const isKnown = this.#waiting.get(name)?.message === message;
    this.#waiting.set(name, { reason, message });
    if (!isKnown) this.#record(pod, { type: "Warning", reason: "Failed", message: `Error: ${message}` });
  }

  target(pod: Pod, container: Container, run: ContainerView): ProbeTarget {
    return { container, run, podIP: this.#sandbox.place(pod).podIPs[0] ?? "" };
  }

  /** Runs what must happen before the container receives its stop signal. */
  preStop(
    pod: Pod,
    run: ContainerView,
    graceMs: number,
  ): ((signal: AbortSignal) => Promise<void>) | undefined {
    const container = containerOf(pod, run.name);
    if (container === undefined || graceMs <= 0) return undefined;
    const { attempt, deps } = this.#context;
    const hook = hookOf("preStop", this.target(pod, container, run), { attempt, clock: deps.clock });
    if (hook === undefined) return undefined;
    return async (signal) => {
      const { ok } = await hook(graceMs, signal);
      if (!ok)
        this.#record(pod, { type: "Warning", reason: "FailedPreStopHook", message: "PreStopHook failed" });
    };
  }

  #onStarted(pod: Pod, container: Container, run: ContainerView): void {
    const { runtime } = this.#context;
    // The previous run is kept for its logs; older runs are removed.
    for (const old of runtime.ofPod(run.podUid))
      if (old.name === run.name && old.attempt < run.attempt - 1) runtime.remove(old);
    this.#record(pod, { type: "Normal", reason: "Created", message: "Container created" });
    if (run.exit?.reason === "StartError") {
      this.#record(pod, { type: "Warning", reason: "Failed", message: `Error: ${run.exit.message ?? ""}` });
      return;
    }
    this.#record(pod, { type: "Normal", reason: "Started", message: "Container started" });
    void this.#postStart(pod, this.target(pod, container, run));
  }

  /** A container whose hook fails is ended, and starts again as its pod says. */
  async #postStart(pod: Pod, target: ProbeTarget): Promise<void> {
    const { deps, attempt, stops } = this.#context;
    const graceMs = graceOf(pod);
    const hook = hookOf("postStart", target, { attempt, clock: deps.clock });
    const outcome = await hook?.(graceMs, new AbortController().signal);
    if (outcome === undefined || outcome.ok) return;
    this.#record(pod, { type: "Warning", reason: "FailedPostStartHook", message: "PostStartHook failed" });
    this.#record(pod, { type: "Normal", reason: "Killing", message: "FailedPostStartHook" });
    const preStop = this.preStop(pod, target.run, graceMs);
    stops.stop(target.run, { deadlineMs: deps.clock.now() + graceMs, preStop, isTurn: true });
  }

  #record(pod: Pod, event: PodEvent): void {
    this.#context.events.record(PODS, pod, event);
  }
}

/** A container of the pod by name, whatever part it has. */
export function containerOf({ spec }: Pod, name: string): Container | undefined {
  return [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].find((it) => it.name === name);
}

/** Unit: milliseconds. */
export function graceOf(pod: Pod): number {
  return (pod.spec?.terminationGracePeriodSeconds ?? 30) * 1000;
}
