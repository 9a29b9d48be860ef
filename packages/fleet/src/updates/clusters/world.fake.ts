import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type {
  ClusterUpgradeStatus,
  FlowReport,
  ComponentsPin,
  Gate,
  MemberUpdateStatus,
  ProbeRequest,
  ReleaseCatalog,
  SkipTarget,
  StrategySpec,
  UpdateRun,
  UpdateRunStatus,
  UpdateState,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { HubSupport } from "#domain/kubernetes-support.ts";
import type { UpgradeOperation } from "../engines/upgrader.ts";
import { advance } from "./advance.ts";
import { withComponents } from "./components.ts";
import type { UpdateMember } from "./fleet.ts";
import { flowsIn, planProbes, type ProbePlan } from "./flows.ts";
import { gatesOf } from "./gates.ts";
import { membersToObserve, operationsOf } from "./needs.ts";
import { isKnown, type Observed } from "./walk.ts";

/** A fleet whose clusters are upgraded by hand: the hub's controller without an API server. */
export class UpdateWorld {
  nowMs = Date.parse("2026-11-23T12:00:00Z");
  #jumpMs = 0;
  readonly members = new Map<string, UpdateMember>();
  readonly clusters = new Map<string, Observed>();
  readonly gates = new Map<string, Gate["spec"]>();
  readonly pins = new Map<string, ComponentsPin>();
  catalogs: ReleaseCatalog[] = [];
  hub: HubSupport | undefined;
  strategy: StrategySpec | undefined;
  run: UpdateRun = {
    metadata: { name: "run", uid: "uid" },
    spec: { managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.34.1" } } },
  };
  /** Called after each pass. */
  onPass: (before: UpdateRunStatus | undefined, after: UpdateRunStatus) => void = () => {};
  againAtMs: number | undefined;
  /** Members that do not answer. */
  readonly silent = new Set<string>();
  /** What members report that probe others. Undefined: there are no probes. */
  report: ((prober: string, request: ProbeRequest) => FlowReport | undefined) | undefined;
  /** The probes of the last pass. */
  plan: ProbePlan = new Map();
  /** What engines had to do with each cluster, in order. */
  readonly reported: string[] = [];

  add(name: string, member: Partial<UpdateMember> = {}, cluster: ClusterUpgradeStatus = {}): void {
    this.members.set(name, {
      name,
      labels: {},
      group: undefined,
      region: undefined,
      hasLongTermSupport: false,
      upgrader: "Job:upgrade",
      schedules: { kubernetes: undefined, nodeOS: undefined },
      programs: [],
      profile: undefined,
      nodeAgents: undefined,
      ...member,
    });
    this.clusters.set(name, { kubernetesVersion: "1.33.4", nodes: [], ...cluster });
  }

  request(spec: Partial<UpdateRun["spec"]>): void {
    this.run = { ...this.run, spec: { ...this.run.spec, ...spec } };
  }
  start(): void {
    this.request({ state: "Run" });
    this.settle();
  }
  skip(...targets: readonly SkipTarget[]): void {
    this.request({ skip: [...(this.run.spec.skip ?? []), ...targets] });
    this.settle();
  }

  /** One pass of the controller. @returns Whether the status changed. */
  pass(): boolean {
    const observable = new Set(membersToObserve(this.run));
    const { status: before } = this.run;
    const { report, silent } = this;
    const isSilent = (name: string): boolean => silent.has(name);
    if (report !== undefined)
      this.plan = planProbes([this.run], {
        members: this.members.keys(),
        isSilent,
        report,
        nowMs: this.nowMs,
      });
    const { status, againAtMs } = advance(this.run, this.strategy, {
      nowMs: this.nowMs,
      jumpMs: this.#jumpMs,
      members: this.members,
      observe: (name) => (observable.has(name) ? this.observe(name) : undefined),
      gateState: (id) => this.gates.get(id)?.state,
      catalogs: this.catalogs,
      hub: this.hub,
      isSilent,
      ...(report === undefined ? {} : { flows: flowsIn(this.plan, report) }),
    });
    this.#jumpMs = 0;
    this.againAtMs = againAtMs;
    this.run = { ...this.run, status };
    this.onPass(before, status);
    for (const { name, spec } of gatesOf(this.run)) this.gates.set(name, this.#gate(name, spec));
    for (const [name, operation] of operationsOf(this.run)) this.#begin(name, operation);
    return !sameJson(before, status);
  }

  observe(name: string): Observed | undefined {
    const [cluster, member] = [this.clusters.get(name), this.members.get(name)];
    if (!isKnown(cluster) || member === undefined) return cluster;
    return withComponents(cluster, member, this.pins.get(name), operationsOf(this.run).get(name)?.id);
  }

  #gate(name: string, spec: Gate["spec"]): Gate["spec"] {
    const present = this.gates.get(name);
    return present === undefined || (present.state === "Pending" && spec.state !== "Pending")
      ? spec
      : present;
  }

  /** As the hub and an engine do that can stop and go back. */
  #begin(name: string, operation: UpgradeOperation): void {
    const { id, stop, rollback, target } = operation;
    if (target.type === "Components") return this.#pin(name, operation);
    const cluster = this.clusters.get(name);
    if (cluster === undefined || "problem" in cluster) return;
    const { operation: current } = cluster;
    const isBusy = current?.state === "Running";
    if (stop === true || (rollback === true && isBusy && current.id !== id)) {
      if (!isBusy) return;
      this.reported.push(`stop ${name} ${current.id}`);
      this.clusters.set(name, { ...cluster, operation: { ...current, state: "Failed" } });
    } else if (current?.id !== id) {
      this.reported.push(`start ${name} ${id}`);
      this.clusters.set(name, { ...cluster, operation: { id, state: "Running" } });
    }
  }

  #pin(name: string, { id, stop, target }: UpgradeOperation): void {
    const { componentsVersion: version = "" } = target;
    const { name: profile, version: over } = this.members.get(name)?.profile ?? { name: "" };
    const pin = this.pins.get(name);
    if (stop !== true) this.pins.set(name, { operation: id, version, profile, ...defined({ over }) });
    else if (pin?.operation === id) this.pins.set(name, { ...pin, stopped: true });
  }

  settle(): void {
    for (let passes = 0; this.pass(); passes += 1) if (passes > 100) throw new Error("the run never settles");
  }

  /** Ends the upgrade of a cluster. */
  finish(name: string, result: "Succeeded" | "Failed" = "Succeeded"): void {
    const cluster = this.clusters.get(name);
    const member = this.member(name);
    if (cluster === undefined || "problem" in cluster || cluster.operation === undefined)
      throw new Error(`${name} is not being upgraded`);
    const isBack = member.rollback !== undefined;
    const version = (isBack ? member.previous : member.target)?.kubernetesVersion;
    const reached = result === "Succeeded" && version !== undefined ? { kubernetesVersion: version } : {};
    const message = result === "Failed" ? { message: "node does not boot" } : {};
    const nodes = (cluster.nodes ?? []).map((it) => ({ ...it, ...reached }));
    const operation = { ...cluster.operation, state: result, ...message };
    this.clusters.set(name, { ...cluster, ...reached, nodes, operation });
    this.settle();
  }

  /** Has the agents of a member's nodes report. */
  agents(name: string, nodeAgents: UpdateMember["nodeAgents"]): void {
    const member = this.members.get(name);
    if (member === undefined) throw new Error(`there is no member ${name}`);
    this.members.set(name, { ...member, nodeAgents });
    this.settle();
  }

  /** The agents of a member's nodes run the version that it is pinned to. */
  install(name: string): void {
    const version = this.pins.get(name)?.version;
    this.agents(name, { installed: version, reason: "Installed", message: `${version} on 2 nodes` });
  }

  approve(displayName: string): void {
    for (const [id, spec] of this.gates)
      if (spec.displayName === displayName) this.gates.set(id, { ...spec, state: "Completed" });
    this.settle();
  }
  later(ms: number): void {
    this.nowMs += ms;
    this.settle();
  }

  /** Sets the time of day, while the hub runs. */
  setClock(byMs: number): void {
    this.nowMs += byMs;
    this.#jumpMs = byMs;
    this.settle();
  }

  get status(): UpdateRunStatus {
    if (this.run.status === undefined) throw new Error("no pass yet");
    return this.run.status;
  }
  get state(): UpdateState {
    return this.status.status.state;
  }
  member(name: string): MemberUpdateStatus {
    const found = this.allMembers().find((it) => it.name === name);
    if (found === undefined) throw new Error(`${name} is not in the run`);
    return found;
  }
  allMembers(): MemberUpdateStatus[] {
    return this.status.stages.flatMap((stage) => stage.groups.flatMap((it) => it.members));
  }
  /** "a:Running b:NotStarted". */
  get states(): string {
    return this.allMembers()
      .map((it) => `${it.name}:${it.status.state}`)
      .join(" ");
  }
  get stageStates(): UpdateState[] {
    return this.status.stages.map((it) => it.status.state);
  }
}

/** One group of the named members, which are added. */
export function group(world: UpdateWorld, name: string, members: readonly string[]): { name: string } {
  for (const it of members) world.add(it, { group: name });
  return { name };
}
