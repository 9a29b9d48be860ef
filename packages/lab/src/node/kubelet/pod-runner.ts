import { type Container, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { ContainerView } from "../container/runtime.ts";
import type { RunningPod } from "../cri/server.ts";
import { DEADLINE_EXCEEDED, deadlineOf, nextToEnd } from "../pod/ending.ts";
import { NoAddressError } from "../network/pod-addresses.ts";
import { ConfigError } from "../pod/environment.ts";
import { planContainers, type PodPlan } from "../pod/plan.ts";
import { sandboxProblem } from "../pod/refusals.ts";
import { isSidecar, RestartBackoff, sidecarsOf } from "../pod/restart.ts";
import { containerId, type Ended, type PodStatus, podStatus } from "../pod/status.ts";
import { type Known, PodProbes, type ProbeKind } from "../probe/probes.ts";
import { containerOf, ContainerStarter, graceOf } from "./container-starter.ts";
import type { NodeContext, PodEvent } from "./context.ts";
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
  readonly #starter: ContainerStarter;
  readonly #probes: PodProbes;
  readonly #restarts = new RestartBackoff();
  /** The pod as it was last seen. */
  #pod: Pod | undefined;
  /** Unit: milliseconds since the Unix epoch; set once the pod is to end. */
  #deadlineMs: number | undefined;
  /** The reason for which the node ends a pod that was not deleted. */
  #ended: Ended | undefined;
  /** The last reported problem of a sandbox or volume that cannot be created. */
  #problem: string | undefined;
  #written: { readonly status: PodStatus; readonly resourceVersion: string | undefined } | undefined;

  /** @param pod - The pod, where it is known already: it counts among those of the node at once. */
  constructor(context: NodeContext, record: PodRecord, pod?: Pod) {
    this.#context = context;
    this.#pod = pod;
    this.uid = record.uid;
    this.key = objectKey(record.namespace, record.name);
    const enqueue = (): void => context.enqueue(this.key);
    this.#sandbox = new PodSandbox(context, record, enqueue);
    this.#starter = new ContainerStarter(context, this.#sandbox);
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

  /** The pod as it was last seen; undefined before its first pass. */
  get pod(): Pod | undefined {
    return this.#pod;
  }

  netns(): string | undefined {
    return this.#pod === undefined ? undefined : this.#sandbox.netnsOf(this.#pod);
  }

  /** The pod as other programs of the node see it; undefined as long as it has no network. */
  get running(): RunningPod | undefined {
    if (this.#pod === undefined || !this.#sandbox.hasNetwork) return undefined;
    const { namespace = "", name } = this.#pod.metadata;
    return { uid: this.uid, namespace, name, netns: this.#sandbox.netnsOf(this.#pod) };
  }

  /**
   * One pass for a pod that is to run.
   *
   * @returns When the next pass is due though nothing changes. Unit: milliseconds since the Unix epoch.
   */
  async sync(pod: Pod, signal: AbortSignal): Promise<number | undefined> {
    this.#pod = pod;
    if (isOver(this.#latestStatus(pod))) {
      if (!this.#sandbox.isHeld) return undefined;
      // What is left of it are its logs. Its addresses are for others.
      await this.#sandbox.release(signal);
      await this.#report(pod, this.#plan(pod), signal);
      return undefined;
    }
    const deadlineMs = deadlineOf({ ...pod, status: this.#latestStatus(pod) });
    if (this.#ended !== undefined || (deadlineMs ?? Infinity) <= this.#context.deps.clock.now()) {
      await this.#endOnDeadline(pod, signal);
      return undefined;
    }
    const due = [deadlineMs];
    if (await this.#prepare(pod, due, signal)) {
      const plan = this.#plan(pod);
      this.#noteBackoffs(pod, plan);
      const starts = await Promise.allSettled(plan.start.map((it) => this.#starter.start(pod, it)));
      this.#beginProbes(pod);
      const after = this.#plan(pod);
      if (after.isOver) this.#stopAll(pod, graceOf(pod));
      else this.#deadlineMs = undefined;
      due.push(after.dueAtMs, this.#starter.dueAtMs);
      await this.#report(pod, after, signal);
      // A start that failed for a reason outside the pod is retried; until then the pod's status reports the reason.
      for (const it of starts) if (it.status === "rejected") throw it.reason;
      if (after.start.length > plan.start.length) this.#context.enqueue(this.key);
    } else await this.#report(pod, this.#plan(pod), signal);
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
    const { runtime } = this.#context;
    this.#pod = pod ?? this.#pod;
    const isRunning = this.#stopAll(pod, graceMs);
    if (pod !== undefined) {
      if (isRunning) this.#beginProbes(pod);
      await this.#report(pod, this.#plan(pod), signal);
    }
    if (isRunning) return false;
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

  /** Makes network and volumes. False while one of them cannot be made: no container starts before. */
  async #prepare(pod: Pod, due: (number | undefined)[], signal: AbortSignal): Promise<boolean> {
    const missing = sandboxProblem(pod);
    if (missing !== undefined) {
      this.#reportProblem(pod, "FailedCreatePodSandBox", `Failed to create pod sandbox: ${missing}`);
      return false;
    }
    try {
      await this.#sandbox.ensureNetwork(pod, signal);
      due.push(await this.#sandbox.ensureVolumes(pod, signal));
      this.#problem = undefined;
      return true;
    } catch (error) {
      if (error instanceof NoAddressError) {
        due.push(error.retryAtMs);
        this.#reportProblem(pod, "FailedCreatePodSandBox", `Failed to create pod sandbox: ${error.message}`);
        return false;
      }
      if (!(error instanceof ConfigError)) throw error;
      this.#reportProblem(pod, "FailedMount", error.message);
      // Running containers keep their volumes as they are, and restart with them.
      return [...this.#context.runtime.ofPod(this.uid)].length > 0;
    }
  }

  #reportProblem(pod: Pod, reason: string, message: string): void {
    if (this.#problem !== message) this.#record(pod, { type: "Warning", reason, message });
    this.#problem = message;
  }

  async #endOnDeadline(pod: Pod, signal: AbortSignal): Promise<void> {
    if (this.#ended === undefined)
      this.#record(pod, {
        type: "Normal",
        reason: DEADLINE_EXCEEDED.reason,
        message: DEADLINE_EXCEEDED.message,
      });
    this.#ended = DEADLINE_EXCEEDED;
    this.#stopAll(pod, graceOf(pod));
    await this.#report(pod, this.#plan(pod), signal);
  }

  /** Asks those to end whose turn it is. Returns whether any still runs. */
  #stopAll(pod: Pod | undefined, graceMs: number): boolean {
    const { runtime, stops, deps } = this.#context;
    const known = this.#pod;
    const running = [...runtime.ofPod(this.uid)].filter((it) => it.exit === undefined);
    this.#deadlineMs = Math.min(this.#deadlineMs ?? Infinity, deps.clock.now() + graceMs);
    const names = running.map((it) => it.name);
    const turn = known === undefined ? new Set(names) : nextToEnd(known, names);
    for (const run of running) {
      if (!stops.isStopping(run.folder) && known !== undefined) {
        const message = `Stopping container ${run.name}`;
        this.#record(known, { type: "Normal", reason: "Killing", message });
      }
      const preStop = pod === undefined ? undefined : this.#starter.preStop(pod, run, graceMs);
      stops.stop(run, { deadlineMs: this.#deadlineMs, preStop, isTurn: turn.has(run.name) });
    }
    if (running.length === 0) this.#deadlineMs = undefined;
    return running.length > 0;
  }

  #plan(pod: Pod): PodPlan {
    const { runtime, deps } = this.#context;
    return planContainers<ContainerView>({
      pod,
      latest: (name) => runtime.latest(this.uid, name),
      isStarted: (run) => this.#probes.isStarted(run),
      restartAtMs: (run) => this.#restarts.restartAtMs(run),
      nowMs: deps.clock.now(),
    });
  }

  #noteBackoffs(pod: Pod, plan: PodPlan): void {
    for (const name of plan.backingOff) {
      const run = this.#context.runtime.latest(this.uid, name);
      if (run !== undefined) this.#starter.noteBackoff(pod, run, this.#restarts);
    }
  }

  #beginProbes(pod: Pod): void {
    const { runtime } = this.#context;
    for (const container of [...sidecarsOf(pod), ...(pod.spec?.containers ?? [])]) {
      const run = runtime.latest(this.uid, container.name);
      if (run === undefined || run.exit !== undefined) continue;
      this.#probes.begin(this.#starter.target(pod, container, run), reportedOf(pod, run));
    }
  }

  #onProbeFailure(
    run: ContainerView,
    kind: ProbeKind,
    { message, isFinal }: { readonly message: string; readonly isFinal: boolean },
  ): void {
    // A pod that ends is not judged any more, and its sockets close at their own pace.
    const pod = this.#deadlineMs === undefined ? this.#pod : undefined;
    const container = pod && containerOf(pod, run.name);
    if (pod === undefined || container === undefined) return;
    const title = `${kind.slice(0, 1).toUpperCase()}${kind.slice(1)} probe failed: ${message}`;
    this.#record(pod, { type: "Warning", reason: "Unhealthy", message: title });
    if (!isFinal || kind === "readiness") return;
    const { deps, stops } = this.#context;
    if (stops.isStopping(run.folder)) return;
    const probe = kind === "startup" ? container.startupProbe : container.livenessProbe;
    const ownMs = probe?.terminationGracePeriodSeconds;
    const graceMs = ownMs === undefined ? graceOf(pod) : ownMs * 1000;
    this.#record(pod, { type: "Normal", reason: "Killing", message: probeVerdict(pod, container, kind) });
    const preStop = this.#starter.preStop(pod, run, graceMs);
    stops.stop(run, { deadlineMs: deps.clock.now() + graceMs, preStop, isTurn: true });
  }

  async #report(pod: Pod, plan: PodPlan, signal: AbortSignal): Promise<void> {
    const { runtime, client, deps } = this.#context;
    const base = this.#latestStatus(pod);
    const place = this.#sandbox.place(pod);
    const status = podStatus({
      pod: { ...pod, status: base },
      place: this.#sandbox.hasNetwork ? place : { ...place, podIPs: [] },
      run: (name, back) => runtime.latest(this.uid, name, back),
      waiting: this.#starter.waiting,
      isReady: (run) => this.#probes.isReady(run),
      isStarted: (run) => this.#probes.isStarted(run),
      hasNetwork: this.#sandbox.hasNetwork,
      isEnding: pod.metadata.deletionTimestamp !== undefined || this.#ended !== undefined,
      ended: this.#ended,
      isRestartingAll: plan.isRestartingAll,
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

/** What an earlier kubelet reported of the run. */
function reportedOf({ status }: Pod, run: ContainerView): Known | undefined {
  const all = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])];
  const id = containerId(run);
  const found = all.find((it) => it.containerID === id);
  return found && { ready: found.ready, started: found.started === true };
}

/** Source: computePodActions in pkg/kubelet/kuberuntime. */
function probeVerdict(pod: Pod, container: Container, kind: ProbeKind): string {
  const { name } = container;
  if (isSidecar(container)) return `Init container ${name} failed ${kind} probe`;
  const policy = container.restartPolicy ?? pod.spec?.restartPolicy ?? "Always";
  const then = policy === "Never" ? "" : ", will be restarted";
  return `Container ${name} failed ${kind} probe${then}`;
}

function isOver({ phase }: PodStatus): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((it) => it !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
