import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { isTracked, JOB_TRACKING_FINALIZER, type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { claimantsOf, ownerOf } from "../claims.ts";
import { untilEnding } from "../ending.ts";
import { randomSuffix } from "../names.ts";
import { OwnWrites } from "../own-writes.ts";
import { type WorkloadParts, WorkloadPods } from "../workload-pods.ts";
import { type FailureRecord, NO_FAILURES } from "./backoff.ts";
import { finishedAs, type JobPlan, keptForMs, planJob } from "./plan.ts";
import { newPod } from "./pods.ts";

type Parts = WorkloadParts<"jobs">;

/** Runs Jobs to their end, counts their pods, and removes Jobs that were kept long enough. */
export function jobController(parts: Parts, deps: RuntimeDeps): Controller {
  const reconciler = new Reconciler(parts, deps);
  return createController(
    {
      name: "job",
      reconcile: untilEnding((key, signal) => reconciler.reconcile(key, signal)),
      sources: [
        watching(parts.informers.jobs),
        watching(parts.informers.pods, (change) => claimantsOf(parts.informers.jobs, change)),
      ],
    },
    deps,
  );
}

class Reconciler {
  readonly #client: KubeClient;
  readonly #informers: Parts["informers"];
  readonly #events: EventRecorder;
  readonly #deps: RuntimeDeps;
  readonly #pods: WorkloadPods<Job>;
  readonly #written = new OwnWrites();
  /** By uid. */
  readonly #records = new Map<ObjectKey, { readonly uid: string; readonly record: FailureRecord }>();

  constructor(parts: Parts, deps: RuntimeDeps) {
    this.#client = parts.client;
    this.#informers = parts.informers;
    this.#events = parts.events;
    this.#deps = deps;
    this.#pods = new WorkloadPods(JOBS, parts, deps.clock);
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const job = this.#informers.jobs.store.get(key);
    if (job === undefined) {
      this.#records.delete(key);
      this.#written.forget(key);
      await this.#releaseOrphans(key, signal);
      return {};
    }
    if ((job.spec?.managedBy ?? OWN_NAME) !== OWN_NAME) return {};
    // What the cache shows is older than what was written: the watch brings the rest, and the pass.
    if (!this.#written.isSeen(key, job)) return {};
    if (finishedAs(job) !== undefined) return this.#keep(job, signal);
    return this.#proceed(key, job, signal);
  }

  async #proceed(key: ObjectKey, job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    const { uid = "" } = job.metadata;
    const isSettled = this.#pods.isSettled(job);
    const pods = await this.#pods.claim(job, signal);
    const known = this.#records.get(key);
    const record = known?.uid === uid ? known.record : NO_FAILURES;
    const nowMs = this.#deps.clock.now();
    const plan = planJob({ job, pods, record, nowMs, isSettled });
    const failure = await this.#changePods(job, plan, signal);
    if (failure !== undefined) throw failure;
    await this.#writeStatus(key, job, plan, signal);
    this.#records.set(key, { uid, record: plan.record });
    for (const pod of plan.release) await this.#release(pod, signal);
    return plan.checkInMs === undefined ? {} : { requeueAfterMs: Math.max(1, plan.checkInMs) };
  }

  /** @returns The first failure. */
  async #changePods(job: Job, plan: JobPlan, signal: AbortSignal): Promise<Error | undefined> {
    try {
      for (const pod of plan.drop) {
        await this.#release(pod, signal);
        await this.#pods.delete(job, pod, signal);
      }
      for (const pod of plan.end) await this.#pods.delete(job, pod, signal);
      for (const next of plan.create)
        await this.#pods.create(job, newPod(job, next, randomSuffix(this.#deps.rng)), signal);
      return undefined;
    } catch (error) {
      return Error.isError(error) ? error : new Error(String(error));
    }
  }

  async #writeStatus(key: ObjectKey, job: Job, plan: JobPlan, signal: AbortSignal): Promise<void> {
    const { status, event } = plan.status;
    if (sameJson(withDefaults(job.status), withDefaults(status))) return;
    const options = { subresource: "status", signal } as const;
    this.#written.note(key, await this.#client.update(JOBS, { ...job, status }, options));
    if (event !== undefined) this.#events.record(JOBS, job, event);
  }

  /** Removes the finalizer: from now on the pod is in the Job's counts, or never will be. */
  async #release(pod: Pod, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion, finalizers = [] } = pod.metadata;
    const left = finalizers.filter((it) => it !== JOB_TRACKING_FINALIZER);
    const patch = { metadata: { uid, resourceVersion, finalizers: left } };
    await this.#client.mergePatch(PODS, keyOf(pod), patch, { signal }).catch(ignoreNotFound);
  }

  /** Removes the finalizer of pods whose Job is gone: they are no longer counted. */
  async #releaseOrphans(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const [namespace = ""] = key.split("/");
    const orphans = [...this.#informers.pods.store.byIndex("namespace", namespace)].filter(
      (pod) => isTracked(pod) && ownerOf("Job", pod)[0] === key,
    );
    if (orphans.length === 0) return;
    // The cache of Jobs may be behind the one of pods: only the server knows that a Job is not there.
    if ((await this.#client.find(JOBS, key, { signal })) !== undefined) return;
    for (const pod of orphans) await this.#release(pod, signal);
  }

  async #keep(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    this.#records.delete(keyOf(job));
    const leftMs = keptForMs(job, this.#deps.clock.now());
    if (leftMs === undefined || isDeleting(job)) return {};
    if (leftMs > 0) return { requeueAfterMs: leftMs };
    const { uid = "", resourceVersion = "" } = job.metadata;
    const options = { uid, resourceVersion, propagationPolicy: "Foreground", signal } as const;
    await this.#client.delete(JOBS, keyOf(job), options);
    return {};
  }
}

const OWN_NAME = "kubernetes.io/job-controller";

/** A server may leave out counts of zero, as Go's encoder does. */
function withDefaults(status: Job["status"]): object {
  return { active: 0, succeeded: 0, failed: 0, ...status };
}
