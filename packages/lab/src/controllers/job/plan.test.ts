import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  isTracked,
  type Job,
  JOB_TRACKING_FINALIZER,
  type JobSpec,
} from "@fairlead/kube/api/batch/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { backoffLeftMs, NO_FAILURES, noteEnded } from "./backoff.ts";
import { finishedAs, keptForMs, planJob } from "./plan.ts";
import { newPod } from "./pods.ts";
import { IndexSet } from "./indexes.ts";

const START_MS = Date.parse("2026-01-01T00:00:00Z");

/** A cluster of one Job: pods end as told, steps are carried out one by one and may be cut off anywhere. */
class World {
  job: Job;
  pods: Pod[] = [];
  nowMs = START_MS;
  record = NO_FAILURES;
  #last = 0;
  readonly events: string[] = [];
  /** How many pods ever ran at a time. */
  most = 0;

  constructor(spec: Partial<JobSpec>) {
    const template = { spec: { containers: [{ name: "c" }], restartPolicy: "Never" as const } };
    const defaults = {
      parallelism: 1,
      backoffLimit: 6,
      podReplacementPolicy: "TerminatingOrFailed" as const,
    };
    this.job = { metadata: { name: "job", uid: "j" }, spec: { ...defaults, template, ...spec } };
  }

  /** @param steps - After how many writes the pass is cut off. */
  pass(steps = Number.POSITIVE_INFINITY): void {
    if (finishedAs(this.job) !== undefined) return;
    const { job, pods, record, nowMs } = this;
    const plan = planJob({ job, pods, record, nowMs, isSettled: true });
    const writes = [
      ...plan.drop.flatMap((pod) => [() => this.#release(pod), () => this.#delete(pod)]),
      ...plan.end.map((pod) => () => this.#delete(pod)),
      ...plan.create.map((next) => () => {
        this.pods.push(this.#stored(newPod(job, next, `p${++this.#last}`)));
      }),
      () => {
        this.job = { ...this.job, status: plan.status.status };
        this.record = plan.record;
        if (plan.status.event !== undefined) this.events.push(plan.status.event.reason);
      },
      ...plan.release.map((pod) => () => this.#release(pod)),
    ];
    for (const write of writes.slice(0, steps)) write();
    this.most = Math.max(this.most, this.active.length);
  }

  get active(): Pod[] {
    return this.pods.filter(
      (pod) => pod.status?.phase === "Running" && pod.metadata.deletionTimestamp === undefined,
    );
  }

  end(pod: Pod | undefined, phase: "Succeeded" | "Failed", exitCode = phase === "Failed" ? 1 : 0): void {
    const finishedAt = timestamp(this.nowMs);
    const state = { terminated: { exitCode, finishedAt } };
    const containerStatuses = [{ name: "c", ready: false, restartCount: 0, image: "", imageID: "", state }];
    this.#replace(pod, { status: { phase, containerStatuses } });
  }

  /** What the kubelet does with pods that are to go. */
  settle(): void {
    this.pods = this.pods.filter((pod) => pod.metadata.deletionTimestamp === undefined || isTracked(pod));
  }

  run(): void {
    for (let at = 0; at < 12; at++) {
      this.pass();
      this.settle();
    }
  }

  #stored(pod: Pod): Pod {
    const metadata = { ...pod.metadata, uid: pod.metadata.name, creationTimestamp: timestamp(this.nowMs) };
    return { ...pod, metadata, status: { phase: "Running" } };
  }

  #delete(pod: Pod): void {
    this.#replace(pod, {}, { deletionTimestamp: timestamp(this.nowMs) });
  }

  #release(pod: Pod): void {
    const of = this.pods.find((it) => it.metadata.uid === pod.metadata.uid);
    const finalizers = (of?.metadata.finalizers ?? []).filter((it) => it !== JOB_TRACKING_FINALIZER);
    this.#replace(pod, {}, { finalizers });
  }

  #replace(pod: Pod | undefined, parts: Partial<Pod>, metadata: Partial<Pod["metadata"]> = {}): void {
    this.pods = this.pods.map((it) =>
      it.metadata.uid === pod?.metadata.uid
        ? { ...it, ...parts, metadata: { ...it.metadata, ...metadata } }
        : it,
    );
  }
}

const typesOf = (job: Job): string[] => (job.status?.conditions ?? []).map((it) => `${it.type} ${it.reason}`);

describe("a Job", () => {
  it("runs as many pods as its parallelism allows until enough have succeeded", () => {
    const world = new World({ completions: 3, parallelism: 2 });
    world.run();
    expect(world.active).toHaveLength(2);
    expect(world.job.status).toMatchObject({ active: 2, startTime: "2026-01-01T00:00:00Z" });
    for (let at = 0; at < 3; at++) {
      world.end(world.active[0], "Succeeded");
      world.run();
    }
    expect(world.most).toBe(2);
    expect(typesOf(world.job)).toEqual([
      "SuccessCriteriaMet CompletionsReached",
      "Complete CompletionsReached",
    ]);
    expect(world.job.status).toMatchObject({ active: 0, succeeded: 3, failed: 0, terminating: 0 });
    expect(world.job.status).toMatchObject({ completionTime: "2026-01-01T00:00:00Z" });
    expect(world.job.status?.uncountedTerminatedPods).toEqual({});
    expect(world.events).toEqual(["Completed"]);
  });

  it("counts each pod once, wherever passes are cut off", () => {
    const act = fc.record({
      kind: fc.constantFrom("succeed", "fail", "delete", "gone"),
      at: fc.nat(5),
      cut: fc.nat(6),
    });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 30 }), fc.boolean(), (acts, isIndexed) => {
        const completionMode = isIndexed ? ("Indexed" as const) : ("NonIndexed" as const);
        const world = new World({ completions: 4, parallelism: 3, backoffLimit: 100, completionMode });
        for (const { kind, at, cut } of acts) {
          world.pass(cut);
          world.nowMs += 600_000;
          if (kind === "gone") world.settle();
          else if (kind !== "delete") world.end(world.active[at], kind === "fail" ? "Failed" : "Succeeded");
        }
        for (let at = 0; at < 20 && finishedAs(world.job) === undefined; at++) {
          world.nowMs += 600_000;
          world.run();
          world.end(world.active[0], "Succeeded");
        }
        const ended = (phase: string) => world.pods.filter((pod) => pod.status?.phase === phase).length;
        expect(finishedAs(world.job)?.type).toBe("Complete");
        expect(world.job.status?.failed).toBe(ended("Failed"));
        expect(world.job.status?.succeeded).toBe(isIndexed ? 4 : ended("Succeeded"));
        expect(world.pods.some(isTracked)).toBe(false);
        expect(world.most).toBeLessThanOrEqual(3);
      }),
    );
  });

  it("waits longer after each failure, and fails when there were too many", () => {
    const world = new World({ completions: 1, backoffLimit: 2 });
    const waits: (number | undefined)[] = [];
    world.run();
    for (let at = 0; at < 2; at++) {
      world.end(world.active[0], "Failed");
      world.run();
      expect(world.active).toEqual([]);
      waits.push(backoffLeftMs(world.record, world.nowMs));
      world.nowMs += waits.at(-1) ?? 0;
      world.run();
      expect(world.active).toHaveLength(1);
    }
    expect(waits).toEqual([10_000, 20_000]);
    world.end(world.active[0], "Failed");
    world.run();
    expect(typesOf(world.job)).toEqual(["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]);
    expect(world.job.status).toMatchObject({ failed: 3, active: 0 });
  });

  it("ignores failures before a success in its back-off", () => {
    const at = (ms: number): Pod => ({
      metadata: { name: "p", creationTimestamp: timestamp(START_MS + ms) },
    });
    const record = noteEnded({ failures: 5, lastMs: START_MS }, [at(2000)], [at(1000), at(3000)]);
    expect(record).toEqual({ failures: 1, lastMs: START_MS + 3000 });
  });

  it("ends what runs when its time is over, and counts it as failed", () => {
    const world = new World({ completions: 2, parallelism: 2, activeDeadlineSeconds: 60 });
    world.run();
    const { pods, job, record, nowMs } = world;
    expect(planJob({ job, pods, record, nowMs, isSettled: true }).checkInMs).toBe(60_000);
    world.nowMs += 60_000;
    world.pass();
    expect(typesOf(world.job)).toEqual(["FailureTarget DeadlineExceeded"]);
    expect(world.job.status).toMatchObject({ active: 0, terminating: 2 });
    world.run();
    expect(typesOf(world.job).at(-1)).toBe("Failed DeadlineExceeded");
    expect(world.job.status).toMatchObject({ failed: 2, terminating: 0 });
  });

  it("removes its pods while it is suspended, and counts none of them", () => {
    const world = new World({ completions: 2, parallelism: 2 });
    world.run();
    world.job = { ...world.job, spec: { ...world.job.spec!, suspend: true } };
    world.nowMs += 5000;
    world.run();
    expect(world.active).toEqual([]);
    expect(world.job.status).toMatchObject({ active: 0, failed: 0 });
    expect(world.job.status?.startTime).toBeUndefined();
    world.job = { ...world.job, spec: { ...world.job.spec!, suspend: false } };
    world.run();
    expect(world.active).toHaveLength(2);
    expect(world.job.status?.startTime).toBe("2026-01-01T00:00:05Z");
    expect(world.events).toEqual(["Suspended", "Resumed"]);
  });

  it("gives each pod of an Indexed Job its index, and tries an index again that failed", () => {
    const world = new World({ completions: 3, parallelism: 3, completionMode: "Indexed" });
    world.run();
    const [first] = world.active;
    expect(world.active.map((pod) => pod.spec?.hostname)).toEqual(["job-0", "job-1", "job-2"]);
    expect(first?.spec?.containers[0]?.env?.[0]?.name).toBe("JOB_COMPLETION_INDEX");
    world.end(world.active[2], "Succeeded");
    world.end(world.active[0], "Failed");
    world.run();
    expect(world.job.status).toMatchObject({ completedIndexes: "2", succeeded: 1, failed: 1 });
    world.nowMs += 10_000;
    world.run();
    expect(new Set(world.active.map((pod) => pod.spec?.hostname))).toEqual(new Set(["job-0", "job-1"]));
  });

  it("fails the indexes that failed too often, and continues with the others", () => {
    const spec = { completions: 2, parallelism: 2, completionMode: "Indexed", backoffLimit: 99 } as const;
    const world = new World({ ...spec, backoffLimitPerIndex: 1 });
    world.run();
    world.end(world.active[0], "Failed");
    world.run();
    world.nowMs += 10_000;
    world.run();
    const again = world.active.find((pod) => pod.spec?.hostname === "job-0");
    expect(again?.metadata.annotations).toMatchObject({ "batch.kubernetes.io/job-index-failure-count": "1" });
    world.end(again, "Failed");
    world.run();
    expect(world.job.status).toMatchObject({ failedIndexes: "0", active: 1 });
    world.end(world.active[0], "Succeeded");
    world.run();
    expect(typesOf(world.job).at(-1)).toBe("Failed FailedIndexes");
    expect(world.job.status).toMatchObject({ completedIndexes: "1", failed: 2, succeeded: 1 });
  });

  it("applies its podFailurePolicy: some failures do not count, some end it", () => {
    const rules = [
      { action: "Ignore" as const, onPodConditions: [{ type: "DisruptionTarget" }] },
      { action: "FailJob" as const, onExitCodes: { operator: "In" as const, values: [42] } },
    ];
    const policy = { podFailurePolicy: { rules }, podReplacementPolicy: "Failed" as const };
    const world = new World({ completions: 2, parallelism: 2, backoffLimit: 0, ...policy });
    world.run();
    const [evicted] = world.active;
    world.pods = world.pods.map((pod) =>
      pod === evicted
        ? { ...pod, status: { phase: "Failed", conditions: [{ type: "DisruptionTarget", status: "True" }] } }
        : pod,
    );
    world.run();
    expect(world.job.status).toMatchObject({ failed: 0 });
    world.end(world.active[0], "Failed", 42);
    world.run();
    expect(world.job.status?.conditions?.[0]).toMatchObject({
      reason: "PodFailurePolicy",
      message: expect.stringMatching(/failed with exit code 42 matching FailJob rule at index 1$/) as string,
    });
  });

  it("is done when the indexes that its policy names have succeeded", () => {
    const successPolicy = { rules: [{ succeededIndexes: "1" }] };
    const world = new World({ completions: 3, parallelism: 3, completionMode: "Indexed", successPolicy });
    world.run();
    world.end(world.active[1], "Succeeded");
    world.run();
    expect(typesOf(world.job)).toEqual(["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]);
    expect(world.job.status).toMatchObject({ succeeded: 1, failed: 0, active: 0 });
    expect(IndexSet.parse(world.job.status?.completedIndexes, 3).size).toBe(1);
  });

  it("is a work queue without completions: after the first success no new pod starts", () => {
    const world = new World({ parallelism: 2 });
    world.run();
    world.end(world.active[0], "Succeeded");
    world.run();
    expect(world.active).toHaveLength(1);
    world.end(world.active[0], "Succeeded");
    world.run();
    expect(finishedAs(world.job)?.type).toBe("Complete");
  });

  it("is kept for ttlSecondsAfterFinished once it has ended", () => {
    const world = new World({ completions: 0, ttlSecondsAfterFinished: 30 });
    world.run();
    expect(keptForMs(world.job, world.nowMs)).toBe(30_000);
    expect(keptForMs(world.job, world.nowMs + 31_000)).toBe(0);
  });
});
