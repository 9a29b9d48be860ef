import { randomBytes } from "node:crypto";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { NAMESPACES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MCS_SERVICE_EXPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { removeNamespace, removeStale } from "./clean.ts";
import {
  exportsOf,
  namespaceOf,
  type Participant,
  PROBE_JOB,
  probeOf,
  type Run,
  runOf,
  serverOf,
  servicesOf,
} from "./manifests.ts";
import { awaitServer, imageOf, watchImports } from "./observe.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { type Other, type Sight, sightOf, sightOfPods } from "./plan.ts";
import type { Check, Finding, Result } from "./probes.ts";
import { failedProbe, missingResults, parseFindings } from "./results.ts";

export interface Cluster {
  readonly name: string;
  readonly client: KubeClient;
}

export interface VerifyOptions {
  /** At least two. */
  readonly clusters: readonly Cluster[];
  /** Default: that of Fairlead in each cluster. */
  readonly image?: string | undefined;
  readonly checks: readonly Check[];
  readonly zone: string;
  /** Of each step: pods become ready, imports arrive, probes end. Unit: milliseconds. */
  readonly timeoutMs: number;
  /** How long a check is repeated until it passes. Unit: milliseconds. */
  readonly settleMs: number;
  /** What pods send to: what a cluster imports of the others, or their pods themselves, which need not share services. */
  readonly targets: "imports" | "pods";
}

export interface VerifyDeps extends RuntimeDeps {
  /** Receives each step, for people. */
  readonly progress: (step: string) => void;
}

export interface Verification {
  readonly run: string;
  readonly results: readonly Result[];
}

/** Clusters that are worked on at once. */
const CLUSTERS_AT_ONCE = 8;
/** A run takes three steps, and its removal one. */
const STEPS = 4;

interface Member extends Participant {
  readonly client: KubeClient;
}

const NOTHING_SEEN: Sight = { targets: [], missing: new Map(), isComplete: true };

/** A cluster, and what it has of the others. */
interface Prober {
  readonly member: Server;
  readonly sight: Sight;
}

/**
 * Probes every cluster from every other one, by pods and exported services in a namespace that it creates, and that it
 * removes in any case.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` without an image for the pods.
 */
export async function verifyFleet(
  options: VerifyOptions,
  deps: VerifyDeps,
  signal: AbortSignal,
): Promise<Verification> {
  const run = runOf(randomBytes(4).toString("hex"));
  await removeLeftovers(options, deps, signal);
  const members: Member[] = [];
  for (const [at, { name, client }] of options.clusters.entries())
    members.push({
      name,
      client,
      number: at + 1,
      image: options.image ?? (await imageOf(client, name, signal)),
    });
  try {
    const isExported = options.targets === "imports";
    await inParallel(members, CLUSTERS_AT_ONCE, (it) => createServer(it, { run, isExported }, signal));
    deps.progress(
      `created namespace ${run.namespace} in ${members.length} clusters; waiting for a pod in each`,
    );
    const servers = await awaitServers(members, { run, timeoutMs: options.timeoutMs }, deps, signal);
    if (isExported) deps.progress("waiting for the services in the other clusters");
    const results: Result[] = [];
    const sights = isExported
      ? await seeOthers(servers, { run, ...options }, deps, signal)
      : servers.map((member) => ({ member, sight: seePods(member, servers) }));
    await inParallel(sights, CLUSTERS_AT_ONCE, async (prober) => {
      const found = await probeFrom(prober, { run, members, options }, deps, signal);
      results.push(...found);
      const failed = found.filter((it) => it.status === "failed").length;
      deps.progress(
        `${prober.member.name}: ${found.length} checks, ${failed === 0 ? "none" : failed} failed`,
      );
    });
    return { run: run.id, results };
  } finally {
    await removeRun(members, run, { deps, timeoutMs: options.timeoutMs });
  }
}

async function createServer(
  member: Member,
  { run, isExported }: { readonly run: Run; readonly isExported: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { client } = member;
  await client.create(NAMESPACES, namespaceOf(run), { signal });
  await client.create(DEPLOYMENTS, serverOf(run, member), { signal });
  for (const it of servicesOf(run, member)) await client.create(SERVICES, it, { signal });
  if (!isExported) return;
  for (const it of exportsOf(run, member)) await client.create(MCS_SERVICE_EXPORTS, it, { signal });
}

/** A cluster with its server pod, or with the reason that it has none. */
type Server = Member & Other;

/** A cluster whose pod does not become ready fails its own pairs, not the run. */
async function awaitServers(
  members: readonly Member[],
  of: { readonly run: Run; readonly timeoutMs: number },
  deps: VerifyDeps,
  signal: AbortSignal,
): Promise<readonly Server[]> {
  return await Promise.all(
    members.map(async (it): Promise<Server> => {
      try {
        return { ...it, ...(await awaitServer(it.client, { ...of, participant: it }, deps, signal)) };
      } catch (error) {
        signal.throwIfAborted();
        deps.progress(messageOf(error));
        return { ...it, families: [], pods: {}, problem: messageOf(error) };
      }
    }),
  );
}

function seePods(member: Server, servers: readonly Server[]): Sight {
  return member.problem === undefined ? sightOfPods(servers.filter((it) => it !== member)) : NOTHING_SEEN;
}

/** All at the same time: the time limit is for the whole fleet. */
async function seeOthers(
  servers: readonly Server[],
  of: { readonly run: Run } & Pick<VerifyOptions, "timeoutMs" | "zone">,
  deps: VerifyDeps,
  signal: AbortSignal,
): Promise<readonly Prober[]> {
  return await Promise.all(
    servers.map(async (member) => {
      if (member.problem !== undefined) return { member, sight: NOTHING_SEEN };
      const others = servers.filter((it) => it !== member);
      const sight = await watchImports(
        member.client,
        { ...of, sight: (found) => sightOf(others, found, of) },
        deps,
        signal,
      );
      return { member, sight };
    }),
  );
}

async function probeFrom(
  { member, sight }: Prober,
  of: { readonly run: Run; readonly members: readonly Member[]; readonly options: VerifyOptions },
  deps: VerifyDeps,
  signal: AbortSignal,
): Promise<readonly Result[]> {
  const from = member.name;
  const { problem } = member;
  if (problem !== undefined)
    return failedProbe(
      from,
      of.members.filter((it) => it.name !== from),
      problem,
    );
  const missing = missingResults(from, sight);
  if (sight.targets.length === 0) return missing;
  try {
    const findings = await runProbe({ member, sight }, of, deps, signal);
    const found = findings.map((it): Result => ({ from, ...it }));
    return [...missing, ...found];
  } catch (error) {
    signal.throwIfAborted();
    const probed = of.members.filter((it) => sight.targets.some(({ cluster }) => cluster === it.name));
    return [...missing, ...failedProbe(from, probed, `the probe of ${from} failed: ${messageOf(error)}`)];
  }
}

async function runProbe(
  { member: { client, ...member }, sight }: Prober,
  of: { readonly run: Run; readonly options: VerifyOptions },
  deps: VerifyDeps,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { namespace } = of.run;
  const { checks, settleMs, timeoutMs } = of.options;
  const plan = { checks, settleMs, targets: sight.targets, timeoutSeconds: Math.ceil(timeoutMs / 1000) };
  await client.create(JOBS, probeOf(of.run, member, plan), { signal });
  await waitFor(
    client,
    {
      of: JOBS,
      key: objectKey(namespace, PROBE_JOB),
      timeoutMs,
      until: (it) => (it?.status?.succeeded ?? 0) + (it?.status?.failed ?? 0) > 0,
      message: () => `it did not end within ${timeoutMs / 1000} s`,
    },
    deps,
    signal,
  );
  const { items } = await client.list(PODS, { namespace, labelSelector: `job-name=${PROBE_JOB}`, signal });
  const [pod] = items;
  if (pod === undefined) throw new Error("its pod is gone");
  const path = `/api/v1/namespaces/${namespace}/pods/${pod.metadata.name}/log`;
  const said = await client.request("GET", path, undefined, { signal });
  return parseFindings(typeof said === "string" ? said : JSON.stringify(said), pod);
}

/** Even after an interrupt. What cannot be removed is reported and does not hide an error before it. */
async function removeRun(
  members: readonly Member[],
  { namespace }: Run,
  { deps, timeoutMs }: { readonly deps: VerifyDeps; readonly timeoutMs: number },
): Promise<void> {
  const { signal } = new AbortController();
  let left = 0;
  await inParallel(members, CLUSTERS_AT_ONCE, async ({ client, name }) => {
    try {
      await removeNamespace(client, { namespace, cluster: name, timeoutMs }, deps, signal);
    } catch (error) {
      left++;
      deps.progress(`${name}: namespace ${namespace} is not removed: ${messageOf(error)}`);
    }
  });
  if (left === 0) deps.progress(`removed namespace ${namespace}`);
}

async function removeLeftovers(
  { clusters, timeoutMs }: VerifyOptions,
  deps: VerifyDeps,
  signal: AbortSignal,
): Promise<void> {
  await inParallel(clusters, CLUSTERS_AT_ONCE, async ({ client, name }) => {
    // The server's clock, which gave the namespaces their age, is known after the first answer.
    await client.request("GET", "/version", undefined, { signal });
    const nowMs = clockOfServer(client, deps.clock).now();
    const stale = await removeStale(client, { nowMs, olderThanMs: STEPS * timeoutMs }, signal);
    for (const it of stale) deps.progress(`${name}: removed namespace ${it}, which an earlier run left`);
  });
}
