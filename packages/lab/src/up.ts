/** Brings a lab up, or repairs one that is partly up: every step compares with what exists and does what is missing. */

import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { type RuntimeDeps, systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { buildNetwork } from "./build.ts";
import { ensureClusterCredentials, writeFleetKubeconfig } from "./certificates.ts";
import { applyClusterObjects } from "./cluster-objects.ts";
import { applyCoreDns } from "./core-dns.ts";
import { type LabLayout, labLayout } from "./layout.ts";
import { chooseBlock, isTmpfs, raiseInotifyLimit } from "./machine.ts";
import { endStrays } from "./strays.ts";
import { endUnready, isServing, type Launcher, startProgram } from "./processes.ts";
import { extrasOf, KUBECONFIG, type LabProgram, planPrograms } from "./programs.ts";
import { blocksOfLabs, type LabState, readState, writeState } from "./state.ts";
import {
  checkSpec,
  type ExtraProgram,
  type LabCluster,
  type LabSpec,
  type LabTopology,
  planTopology,
  used,
} from "./topology.ts";

/** Installs what the fleet's programs need in clusters of a lab. All may run again and then change nothing. */
export interface FleetInstall {
  hub(client: KubeClient, deps: RuntimeDeps, signal: AbortSignal): Promise<void>;
  member(client: KubeClient, deps: RuntimeDeps, signal: AbortSignal): Promise<void>;
  /** In the cluster in which the program runs. */
  extra(client: KubeClient, extra: ExtraProgram, signal: AbortSignal): Promise<void>;
}

export interface LabContext {
  /** Folder under which every lab has its own. */
  readonly stateRoot: string;
  readonly launcher: Launcher;
  readonly clock: Clock;
  readonly log: Logger;
  readonly fleet: FleetInstall;
}

/** What `up` is doing, for people. */
export type Report = (step: string) => void;

export interface LabUp {
  readonly topology: LabTopology;
  readonly layout: LabLayout;
  /** Programs that were not running and were started. */
  readonly started: readonly string[];
}

/**
 * Makes the lab of `spec` run. A lab of that name that is already up is repaired: killed programs are restarted.
 *
 * @throws {FleetError} `LAB_INVALID` when a lab of that name has another shape.
 */
export async function bringUp(
  spec: LabSpec,
  context: LabContext,
  report: Report,
  signal: AbortSignal,
): Promise<LabUp> {
  checkSpec(spec);
  raiseInotifyLimit();
  const layout = labLayout(context.stateRoot, spec.name);
  const state = await ensureState(spec, layout, signal);
  const { topology } = state;
  report("network namespaces and links");
  await endStrays(topology, layout, context.clock, signal);
  await Promise.all([
    buildNetwork(topology, layout, signal),
    ...topology.clusters.map((cluster) => ensureClusterCredentials(cluster, spec, layout)),
  ]);
  writeFleetKubeconfig(topology, layout);
  const started = await startMissing(topology, layout, context, { report, signal });
  writeState(layout, { ...state, killed: [] });
  return { topology, layout, started };
}

async function ensureState(spec: LabSpec, layout: LabLayout, signal: AbortSignal): Promise<LabState> {
  const found = readState(layout);
  if (found !== undefined) {
    if (sameJson(found.topology.spec, spec)) return found;
    const { members, nodes, bare, topology } = found.topology.spec;
    throw new FleetError(
      "LAB_INVALID",
      `cannot change lab ${spec.name}: it is up ${bare ? "bare, " : ""}with ${members} members of ${nodes} nodes and topology ${topology}; run "fairlead lab down --name ${spec.name}" first, or pass another --name`,
    );
  }
  const hostLink = `fl-${spec.name}`;
  if (existsSync(`/sys/class/net/${hostLink}`)) {
    throw new FleetError(
      "LAB_INVALID",
      `cannot create lab ${spec.name}: this machine already has link ${hostLink}, of a lab in another state folder; pass another --name`,
    );
  }
  mkdirSync(layout.root, { recursive: true, mode: 0o755 });
  const hasTmpfs = !isTmpfs(layout.root);
  if (hasTmpfs) {
    await exec("mount", ["-t", "tmpfs", "-o", "mode=0755,size=80%", `fairlead-${spec.name}`, layout.root], {
      signal,
    });
  }
  const topology = planTopology(
    spec,
    await chooseBlock(spec.name, blocksOfLabs(dirname(layout.root)), signal),
  );
  const state: LabState = { topology, hasTmpfs, killed: [] };
  writeState(layout, state);
  return state;
}

interface Steps {
  readonly report: Report;
  readonly signal: AbortSignal;
  /** Leaves out the programs for which this says no. Default: all belong to it. */
  readonly only?: (program: LabProgram) => boolean;
}

/** Starts every program that does not run, API servers before the rest. */
export async function startMissing(
  topology: LabTopology,
  layout: LabLayout,
  context: LabContext,
  { report, signal, only }: Steps,
): Promise<readonly string[]> {
  const missing = planPrograms(topology, layout).filter(
    (it) => (only?.(it) ?? true) && !isServing(layout, it.name),
  );
  await endUnready(layout, missing, context.clock, signal);
  const of = (stage: LabProgram["stage"]): readonly LabProgram[] =>
    missing.filter((it) => it.stage === stage);
  const [wires, servers, rest] = [of("wire"), of("apiserver"), of("rest")];
  await startAll(wires, layout, context, signal);
  if (servers.length > 0) {
    report("API servers");
    await startAll(servers, layout, context, signal);
  }
  // An interrupted run may have started an API server without creating its objects.
  const unprepared = only === undefined ? missing : servers;
  const fresh = topology.clusters.filter((cluster) => unprepared.some((it) => it.cluster === cluster.name));
  await Promise.all(
    fresh.map((cluster) => prepareCluster({ cluster, spec: topology.spec, layout }, context, signal)),
  );
  if (rest.length > 0) {
    report("managers, DNS servers and nodes");
    await startAll(rest, layout, context, signal);
  }
  return missing.map((it) => it.name);
}

async function startAll(
  programs: readonly LabProgram[],
  layout: LabLayout,
  context: LabContext,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(
    programs.map((program) =>
      startProgram(program, { layout, launcher: context.launcher, clock: context.clock }, signal),
    ),
  );
}

async function prepareCluster(
  { cluster, spec, layout }: { cluster: LabCluster; spec: LabSpec; layout: LabLayout },
  context: LabContext,
  signal: AbortSignal,
): Promise<void> {
  await using client = await connectCluster(cluster, layout, context.log);
  for (const extra of extrasOf(spec, cluster)) await context.fleet.extra(client, extra, signal);
  if (cluster.runs === "hub") await context.fleet.hub(client, systemDeps(context.log), signal);
  else if (cluster.runs === "member")
    await Promise.all([
      applyClusterObjects(client, cluster, spec, signal),
      context.fleet.member(client, systemDeps(context.log), signal),
    ]);
  else await applyCoreDns(client, used(spec, cluster.dnsService), signal);
}

/** A client with administrator's rights. */
export async function connectCluster(
  cluster: Pick<LabCluster, "name">,
  layout: LabLayout,
  log: Logger,
): Promise<KubeClient> {
  return connect(await loadKubeconfig(`${layout.cluster(cluster.name)}/${KUBECONFIG.admin}`), { log });
}
