import {
  LATEST_SNAPSHOT_LABEL,
  PARENT_PLACEMENT_LABEL,
  POLICY_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  ResourceBinding,
  ResourceBindingSpec,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { BEFORE_UPDATE_RUN_ANNOTATION } from "#api/fairlead.dev/names.ts";
import type {
  ApprovalRequest,
  StageConfig,
  StagedUpdateRun,
  StagedUpdateRunStatus,
  StagedUpdateStrategy,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Labels } from "@fairlead/kube/objects/selector.ts";
import { advance, isExecuted, isOver, type Plan } from "./advance.ts";
import { statusOf } from "./conditions.ts";
import { isProgressOnly } from "./progress.ts";
import { replan } from "./replan.ts";
import { initialized, survey, uninitialized } from "./initialize.ts";

export const START_MS = Date.parse("2026-01-01T00:00:00Z");

export function placementNamed(name: string): Placement {
  return {
    metadata: { name, generation: 1 },
    spec: { resourceSelectors: [], strategy: { type: "External" } },
  };
}

export function policyOf(placement: string, index = 0): SchedulingPolicySnapshot {
  return {
    metadata: {
      name: `${placement}-${index}`,
      generation: 1,
      labels: {
        [PARENT_PLACEMENT_LABEL]: placement,
        [POLICY_INDEX_LABEL]: String(index),
        [LATEST_SNAPSHOT_LABEL]: "true",
      },
    },
    spec: { policyHash: "h" },
    status: { observedCRPGeneration: 1, conditions: [condition("Scheduled", "True", 1)] },
  };
}

export function bindingOf(placement: string, cluster: string): ResourceBinding {
  return {
    metadata: {
      name: `${placement}-${cluster}-x`,
      uid: `uid-${cluster}`,
      generation: 1,
      labels: { [PARENT_PLACEMENT_LABEL]: placement },
    },
    spec: {
      state: "Scheduled",
      resourceSnapshotName: "",
      schedulingPolicySnapshotName: `${placement}-0`,
      targetCluster: cluster,
      clusterDecision: { clusterName: cluster, selected: true, reason: "picked" },
    },
  };
}

export function condition(type: string, status: Condition["status"], observedGeneration: number): Condition {
  return {
    type,
    status,
    reason: type,
    message: "",
    lastTransitionTime: "2026-01-01T00:00:00Z",
    observedGeneration,
  };
}

/** Bindings, approvals and one run, on which passes of the state machine act as a controller would make them act. */
export class FakeWorld {
  readonly placement = "web";
  nowMs = START_MS;
  #jumpMs = 0;
  /** The status as the API server has it: how far the clusters are is written later. */
  written: StagedUpdateRunStatus | undefined;
  object: Placement | undefined = placementNamed(this.placement);
  policy: SchedulingPolicySnapshot | undefined = policyOf(this.placement);
  readonly bindings = new Map<string, ResourceBinding>();
  readonly approvals = new Map<string, ApprovalRequest>();
  readonly labels = new Map<string, Record<string, string>>();
  strategy: StagedUpdateStrategy;
  run: StagedUpdateRun;
  /** Of the last pass. */
  plan: Plan | undefined;

  /** @param clusters - The stage of each cluster, which is its label `stage`. */
  constructor(clusters: Readonly<Record<string, string>>, stages: readonly StageConfig[]) {
    this.strategy = { metadata: { name: "by-stage" }, spec: { stages: cloneJson([...stages]) } };
    this.run = {
      metadata: { name: "run", uid: "uid-run", generation: 1 },
      spec: { placementName: this.placement, stagedRolloutStrategyName: "by-stage", state: "Run" },
    };
    for (const [cluster, stage] of Object.entries(clusters)) this.join(cluster, { stage });
  }

  join(cluster: string, labels: Record<string, string>): void {
    this.labels.set(cluster, labels);
    this.bindings.set(cluster, bindingOf(this.placement, cluster));
  }

  /**
   * One pass, with all that it asks for. `loses`: the program ends before the status is written, and what earlier passes did not write is
   * lost as well.
   */
  pass({ loses = false } = {}): Plan | undefined {
    this.plan = undefined;
    const plan = this.#pass(loses);
    const { status } = this.run;
    if (loses) this.#setStatus(this.written);
    else if (status !== undefined && !isProgressOnly(this.written ?? {}, status)) this.written = status;
    return plan;
  }

  #setStatus(status: StagedUpdateRunStatus | undefined): void {
    if (status !== undefined) this.run = { ...this.run, status };
  }

  #pass(loses: boolean): Plan | undefined {
    if (isOver(this.run)) return undefined;
    if (statusOf(this.run.status, "Initialized") !== "True") {
      if (!loses) this.#initialize();
      return undefined;
    }
    if (!isExecuted(this.run)) return undefined;
    const { object: placement, policy, nowMs } = this;
    const bindings = [...this.bindings.values()];
    this.plan = advance(this.run, {
      placement,
      policy,
      bindings,
      nowMs,
      jumpMs: this.#jumpMs,
      approval: (it) => this.approvals.get(it),
    });
    this.#jumpMs = 0;
    if (this.plan.outdated !== undefined) {
      const labelsOf = (it: string): Labels => this.labels.get(it);
      const status = replan(this.run, { policy, bindings, labelsOf }, () => ({}), nowMs);
      if (status !== undefined && !loses) this.run = { ...this.run, status };
      return this.plan;
    }
    this.#act(this.plan);
    if (!loses) this.run = { ...this.run, status: this.plan.status };
    return this.plan;
  }

  /** Sets the time of day, while the hub runs. */
  setClock(byMs: number): void {
    this.nowMs += byMs;
    this.#jumpMs = byMs;
    this.settle();
  }

  /** Passes until one changes nothing, as a controller makes them. */
  settle(): void {
    for (let before = ""; before !== (before = this.#snapshot());) this.pass();
  }

  #snapshot(): string {
    return JSON.stringify([this.run, [...this.bindings.values()], [...this.approvals.values()]]);
  }

  #initialize(): void {
    const found = survey(this.run, {
      placement: this.object,
      policy: this.policy,
      bindings: [...this.bindings.values()],
      strategy: cloneJson(this.strategy),
      labelsOf: (it) => this.labels.get(it),
    });
    const status =
      "stages" in found
        ? initialized(this.run, found, { index: "7", overridesOf: () => ({}) }, this.nowMs)
        : uninitialized(this.run, found, this.nowMs);
    this.run = { ...this.run, status };
  }

  #act({ bind, remove, request, accept }: Plan): void {
    for (const { binding, spec, previous } of bind) {
      this.change(binding.spec.targetCluster, spec);
      if (typeof previous !== "string") continue;
      const { metadata } = this.#binding(binding.spec.targetCluster);
      metadata.annotations = { [BEFORE_UPDATE_RUN_ANNOTATION]: previous };
    }
    for (const it of remove) this.bindings.delete(it.spec.targetCluster);
    for (const it of request) this.approvals.set(it.metadata.name, it);
    for (const it of accept) this.approve(it.metadata.name, "ApprovalAccepted");
  }

  #binding(cluster: string): ResourceBinding {
    const binding = this.bindings.get(cluster);
    if (binding === undefined) throw new Error(`no binding for ${cluster}`);
    return binding;
  }

  change(cluster: string, spec: Partial<ResourceBindingSpec>): void {
    const binding = cloneJson(this.#binding(cluster));
    binding.metadata.generation = (binding.metadata.generation ?? 0) + 1;
    Object.assign(binding.spec, spec);
    this.bindings.set(cluster, binding);
  }

  /** What the member reports of the present spec of the binding. */
  report(cluster: string, ...types: readonly string[]): void {
    const binding = cloneJson(this.#binding(cluster));
    const { generation = 0 } = binding.metadata;
    binding.status = { conditions: types.map((it) => condition(it, "True", generation)) };
    this.bindings.set(cluster, binding);
  }

  ready(...clusters: readonly string[]): void {
    for (const it of clusters) this.report(it, "Applied", "Available");
  }

  approve(name: string, type = "Approved"): void {
    const [, timing, stage = ""] = /^run-(before|after)-(.*)$/.exec(name) ?? [];
    const found = this.approvals.get(name) ?? {
      metadata: { name },
      spec: { parentStageRollout: "run", targetStage: timing === undefined ? "" : stage },
    };
    const conditions = [...(found.status?.conditions ?? []), condition(type, "True", 1)];
    this.approvals.set(name, { ...found, status: { conditions } });
  }

  setState(state: "Initialize" | "Run" | "Stop"): void {
    const { metadata, spec } = this.run;
    this.run = {
      ...this.run,
      metadata: { ...metadata, generation: (metadata.generation ?? 0) + 1 },
      spec: { ...spec, state },
    };
  }

  stage(name: string): StageUpdatingStatus {
    const { stagesStatus = [], deletionStageStatus } = this.run.status ?? {};
    const found = [...stagesStatus, deletionStageStatus].find((it) => it?.stageName === name);
    if (found === undefined) throw new Error(`no stage ${name}`);
    return found;
  }

  /** "status reason" of a condition of the run, or of one of its stages, or of a cluster of that. */
  says(type: string, stage?: string, cluster?: string): string | undefined {
    const at = stage === undefined ? this.run.status : this.stage(stage);
    const of =
      cluster === undefined ? at : this.stage(stage ?? "").clusters.find((it) => it.clusterName === cluster);
    const found = findCondition(of?.conditions, type);
    return found === undefined ? undefined : `${found.status} ${found.reason}`;
  }

  /** The clusters that have started and are not done. */
  inFlight(): string[] {
    return (this.run.status?.stagesStatus ?? []).flatMap((stage) =>
      stage.clusters.flatMap((it) =>
        statusOf(it, "Started") === "True" && statusOf(it, "Succeeded") === undefined ? [it.clusterName] : [],
      ),
    );
  }
}
