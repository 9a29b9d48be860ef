import { type Container, type Pod, PODS } from "#api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "#api/meta/key.ts";
import { hasCode } from "#base/errors.ts";
import { sameJson } from "#base/json.ts";
import { resolveImage } from "../../images/catalogue.ts";
import type { ContainerView } from "../container/runtime.ts";
import { ConfigError } from "../pod/environment.ts";
import { planContainers, type PodPlan, RestartBackoff } from "../pod/plan.ts";
import { containerId, type PodStatus, podStatus, type Waiting } from "../pod/status.ts";
import type { ProbeTarget } from "../probe/attempt.ts";
import { PodProbes } from "../probe/probes.ts";
import { containerSpec } from "./container-spec.ts";
import type { NodeContext, PodEvent } from "./context.ts";
import { hookOf } from "./hooks.ts";
import { ImageBackoff } from "./image-backoff.ts";
import type { PodRecord } from "./pod-record.ts";
import { PodSandbox } from "./pod-sandbox.ts";

/**
 * Runs one pod, by its uid: each pass compares what is asked with what runs, and acts. A pass never waits for a
 * container to end; whatever ends, changes or falls due makes the next pass due.
 */
export class PodRunner implements AsyncDisposable {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly #context: NodeContext;
  readonly #sandbox: PodSandbox;
  readonly #probes: PodProbes;
  readonly #restarts = new RestartBackoff();
  readonly #images: ImageBackoff;
  readonly #waiting = new Map<string, Waiting>();
  /** The pod as it was last seen. */
  #pod: Pod | undefined;
  /** Unit: milliseconds since the Unix epoch; set once the pod is to end. */
  #deadlineMs: number | undefined;
  #written: { readonly status: PodStatus; readonly resourceVersion: string | undefined } | undefined;

  constructor(context: NodeContext, record: PodRecord) {
    this.#context = context;
    this.uid = record.uid;
    this.key = objectKey(record.namespace, record.name);
    const enqueue = (): void => context.enqueue(this.key);
    this.#sandbox = new PodSandbox(context, record, enqueue);
    this.#images = new ImageBackoff(context.deps.clock);
    this.#probes = new PodProbes({
      attempt: context.attempt,
      clock: context.deps.clock,
      onChange: enqueue,
      onFailure: (run, kind, { message, isFinal }) => this.#onProbeFailure(run, kind, { message, isFinal }),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#probes[Symbol.dispose]();
    await Promise.all([this.#sandbox.configMaps.release(), this.#sandbox.secrets.release()]);
  }

  /** Where the pod is, for the kubelet's server. */
  get pod(): Pod | undefined {
    return this.#pod;
  }

  netns(): string | undefined {
    return this.#pod === undefined ? undefined : this.#sandbox.netnsOf(this.#pod);
  }

  /**
   * One pass for a pod that is to run.
   *
   * @returns When the next pass is due though nothing changes. Unit: milliseconds since the Unix epoch.
   */
  async sync(pod: Pod, signal: AbortSignal): Promise<number | undefined> {
    this.#pod = pod;
    const { phase } = this.#latestStatus(pod);
    if (phase === "Succeeded" || phase === "Failed") return undefined;
    await this.#sandbox.ensureNetwork(pod, signal);
    const due: (number | undefined)[] = [];
    let problem: Waiting | undefined;
    try {
      due.push(await this.#sandbox.ensureVolumes(pod, signal));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      problem = { reason: "CreateContainerConfigError", message: error.message };
      this.#record(pod, { type: "Warning", reason: "FailedMount", message: error.message });
    }
    const plan = this.#plan(pod);
    this.#noteBackoffs(pod, plan);
    await Promise.all(plan.start.map((it) => this.#start(pod, it, problem)));
    this.#beginProbes(pod);
    const after = this.#plan(pod);
    due.push(after.dueAtMs, this.#images.dueAtMs);
    await this.#report(pod, after, signal);
    if (after.start.length > plan.start.length) this.#context.enqueue(this.key);
    return earliest(due);
  }

  /**
   * One pass for a pod that is to end. Its containers get `graceMs` from the first such pass on, or less once a later
   * one says less.
   *
   * @param pod - Undefined when the API server no longer knows it.
   * @returns Whether nothing is left of it on the node.
   */
  async end(pod: Pod | undefined, graceMs: number, signal: AbortSignal): Promise<boolean> {
    const { runtime, stops, deps } = this.#context;
    this.#pod = pod ?? this.#pod;
    this.#deadlineMs = Math.min(this.#deadlineMs ?? Infinity, deps.clock.now() + graceMs);
    const running = [...runtime.ofPod(this.uid)].filter((it) => it.exit === undefined);
    for (const run of running) {
      if (!stops.isStopping(run.folder) && this.#pod !== undefined)
        this.#record(this.#pod, {
          type: "Normal",
          reason: "Killing",
          message: `Stopping container ${run.name}`,
        });
      stops.stop(run, this.#deadlineMs, pod === undefined ? undefined : this.#preStop(run, graceMs));
    }
    if (pod !== undefined) {
      if (running.length > 0) this.#beginProbes(pod);
      await this.#report(pod, this.#plan(pod), signal);
    }
    if (running.length > 0) return false;
    this.#probes[Symbol.dispose]();
    for (const run of runtime.ofPod(this.uid)) runtime.remove(run);
    await this.#sandbox.remove(signal);
    return true;
  }

  /** A container of the pod has ended. */
  onExit(run: ContainerView): void {
    this.#probes.end(run.folder);
    this.#context.stops.ended(run.folder);
    this.#context.enqueue(this.key);
  }

  #plan(pod: Pod): PodPlan {
    const { runtime, deps } = this.#context;
    return planContainers({
      pod,
      latest: (name) => runtime.latest(this.uid, name),
      restartAtMs: (run) => this.#restarts.restartAtMs(run),
      nowMs: deps.clock.now(),
    });
  }

  #noteBackoffs(pod: Pod, plan: PodPlan): void {
    for (const name of plan.backingOff) {
      const run = this.#context.runtime.latest(this.uid, name);
      if (run === undefined || this.#waiting.get(name)?.reason === "CrashLoopBackOff") continue;
      const seconds = this.#restarts.delayMs(run) / 1000;
      const { namespace = "", name: podName } = pod.metadata;
      const message = `back-off ${seconds}s restarting failed container=${name} pod=${podName}_${namespace}(${this.uid})`;
      this.#waiting.set(name, { reason: "CrashLoopBackOff", message });
      this.#record(pod, {
        type: "Warning",
        reason: "BackOff",
        message: `Back-off restarting failed container ${name}`,
      });
    }
  }

  async #start(
    pod: Pod,
    { container, attempt }: { readonly container: Container; readonly attempt: number },
    problem: Waiting | undefined,
  ): Promise<void> {
    const { name, image = "" } = container;
    const { machine, runtime } = this.#context;
    const result = this.#images.resolve(name, () => resolveImage(image, machine));
    if (!result.found) {
      if (result.isNew) {
        const message = `Failed to pull image "${image}": ${result.waiting.message ?? ""}`;
        this.#record(pod, { type: "Warning", reason: "Failed", message });
      }
      this.#waiting.set(name, result.waiting);
      return;
    }
    if (problem !== undefined) {
      this.#waiting.set(name, problem);
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
      const run = await runtime.run(spec);
      this.#waiting.delete(name);
      this.#onStarted(pod, container, run);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const isKnown = this.#waiting.get(name)?.message === error.message;
      this.#waiting.set(name, { reason: "CreateContainerConfigError", message: error.message });
      if (!isKnown)
        this.#record(pod, { type: "Warning", reason: "Failed", message: `Error: ${error.message}` });
    }
  }

  #onStarted(pod: Pod, container: Container, run: ContainerView): void {
    const { runtime } = this.#context;
    // The run before stays, for its logs; older ones are of no use to anybody.
    for (const old of runtime.ofPod(this.uid))
      if (old.name === run.name && old.attempt < run.attempt - 1) runtime.remove(old);
    if (run.exit?.reason === "StartError") {
      this.#record(pod, { type: "Warning", reason: "Failed", message: `Error: ${run.exit.message ?? ""}` });
      return;
    }
    this.#record(pod, { type: "Normal", reason: "Started", message: `Started container ${run.name}` });
    void this.#postStart(pod, this.#target(pod, container, run));
  }

  /** A container whose hook fails is ended, and starts again as its pod says. */
  async #postStart(pod: Pod, target: ProbeTarget): Promise<void> {
    const { deps, attempt, stops } = this.#context;
    const graceMs = graceOf(pod);
    const hook = hookOf("postStart", target, { attempt, clock: deps.clock });
    const outcome = await hook?.(graceMs, new AbortController().signal);
    if (outcome === undefined || outcome.ok) return;
    this.#record(pod, { type: "Warning", reason: "FailedPostStartHook", message: outcome.message });
    stops.stop(target.run, deps.clock.now() + graceMs, undefined);
  }

  #beginProbes(pod: Pod): void {
    const { runtime } = this.#context;
    for (const container of pod.spec?.containers ?? []) {
      const run = runtime.latest(this.uid, container.name);
      if (run === undefined || run.exit !== undefined) continue;
      const reported = pod.status?.containerStatuses?.find((it) => it.containerID === containerId(run));
      const known = reported && { ready: reported.ready, started: reported.started === true };
      this.#probes.begin(this.#target(pod, container, run), known);
    }
  }

  #target(pod: Pod, container: Container, run: ContainerView): ProbeTarget {
    return { container, run, podIP: this.#sandbox.place(pod).podIPs[0] ?? "" };
  }

  #onProbeFailure(
    run: ContainerView,
    kind: "startup" | "readiness" | "liveness",
    { message, isFinal }: { readonly message: string; readonly isFinal: boolean },
  ): void {
    const pod = this.#pod;
    const container = pod?.spec?.containers.find((it) => it.name === run.name);
    // A pod that ends is not judged any more, and its sockets close at their own pace.
    if (pod === undefined || container === undefined || this.#deadlineMs !== undefined) return;
    const title = `${kind.slice(0, 1).toUpperCase()}${kind.slice(1)} probe failed: ${message}`;
    this.#record(pod, { type: "Warning", reason: "Unhealthy", message: title });
    if (!isFinal || kind === "readiness") return;
    const probe = kind === "startup" ? container.startupProbe : container.livenessProbe;
    const graceMs = (probe?.terminationGracePeriodSeconds ?? graceOf(pod) / 1000) * 1000;
    const why = `Container ${run.name} failed ${kind} probe, will be restarted`;
    this.#record(pod, { type: "Normal", reason: "Killing", message: why });
    const { deps, stops } = this.#context;
    stops.stop(run, deps.clock.now() + graceMs, this.#preStop(run, graceMs));
  }

  #preStop(run: ContainerView, graceMs: number): ((signal: AbortSignal) => Promise<void>) | undefined {
    const pod = this.#pod;
    const container = pod?.spec?.containers.find((it) => it.name === run.name);
    if (pod === undefined || container === undefined) return undefined;
    const { attempt, deps } = this.#context;
    const hook = hookOf("preStop", this.#target(pod, container, run), { attempt, clock: deps.clock });
    if (hook === undefined) return undefined;
    return async (signal) => {
      const { ok, message } = await hook(graceMs, signal);
      if (!ok) this.#record(pod, { type: "Warning", reason: "FailedPreStopHook", message });
    };
  }

  async #report(pod: Pod, plan: PodPlan, signal: AbortSignal): Promise<void> {
    const { runtime, client, deps } = this.#context;
    const base = this.#latestStatus(pod);
    const status = podStatus({
      pod: { ...pod, status: base },
      place: this.#sandbox.hasNetwork
        ? this.#sandbox.place(pod)
        : { ...this.#sandbox.place(pod), podIPs: [] },
      run: (name, back) => runtime.latest(this.uid, name, back),
      waiting: this.#waiting,
      isReady: (run) => this.#probes.isReady(run),
      isStarted: (run) => this.#probes.isStarted(run),
      hasNetwork: this.#sandbox.hasNetwork,
      initPending: plan.initPending,
      isEnding: this.#deadlineMs !== undefined,
      nowMs: deps.clock.now(),
    });
    if (sameJson({ ...base, ...status }, base)) return;
    try {
      const patch = { metadata: { uid: this.uid }, status };
      const stored = await client.mergePatch(PODS, keyOf(pod), patch, { subresource: "status", signal });
      this.#written = { status: stored.status ?? status, resourceVersion: stored.metadata.resourceVersion };
    } catch (error) {
      // Gone, or another pod of the same name: the watch tells.
      if (!hasCode(error, "API_NOT_FOUND", "API_CONFLICT")) throw error;
    }
  }

  /** The newer of what the watch has shown and what was written last. Resource versions grow (KEP-5504). */
  #latestStatus(pod: Pod): PodStatus {
    const written = this.#written;
    const shown = pod.status ?? {};
    if (written?.resourceVersion === undefined) return shown;
    return BigInt(written.resourceVersion) > BigInt(pod.metadata.resourceVersion ?? "0")
      ? written.status
      : shown;
  }

  #record(pod: Pod, event: PodEvent): void {
    this.#context.events.record(PODS, pod, event);
  }
}

/** Unit: milliseconds. */
export function graceOf(pod: Pod): number {
  return (pod.spec?.terminationGracePeriodSeconds ?? 30) * 1000;
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((it) => it !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
