import {
  type DrainMode,
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
  MEMBER_CLUSTERS,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { drainModeOf } from "#domain/drain.ts";
import { DRAIN_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { byText } from "@fairlead/base/text.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { checkReachable } from "./clusters.ts";
import { cordonCluster } from "./cordon.ts";
import { drainPlacements, type PlacementDrain, placementsOn } from "./drain-placements.ts";
import { type FleetStatus, readFleet, summarizeFleet } from "./status.ts";

export interface DrainDeps extends RuntimeDeps {
  /** Receives each step, for people. */
  readonly progress?: (step: string) => void;
}

export interface DrainOptions {
  readonly name: string;
  readonly hub: ClusterConfig;
  /** Undefined: new flows may go to the cluster again. */
  readonly mode: DrainMode | undefined;
  /** Also cordon the cluster and evict what is placed there; at the end of a drain, uncordon it. Default: false. */
  readonly placements?: boolean;
  /** Only find out what it would mean. Default: false. */
  readonly dryRun?: boolean;
  /** Wait until every importing cluster has carried it out, and what was evicted is removed. Default: true. */
  readonly wait?: boolean;
  /** Unit: milliseconds. Default: 60 000. */
  readonly timeoutMs?: number;
}

export interface DrainResult {
  readonly cluster: string;
  readonly mode: DrainMode | "None";
  /** Whether nothing was changed. */
  readonly dryRun?: true;
  /** Clusters that have carried it out. */
  readonly carriedOutBy: readonly string[];
  /** Services, as "namespace/name", that no other cluster can serve now. */
  readonly servedOnlyHere: readonly string[];
  /** With placements: whether new ones are kept away. */
  readonly cordoned?: boolean;
  /** What became of those that were bound to the cluster. */
  readonly placements?: readonly PlacementDrain[];
}

const DEFAULT_TIMEOUT_MS = 60_000;

/**
 * Drains a cluster or ends its drain, and waits until every importing cluster has applied it.
 *
 * @throws {FleetError} `OPTION_INVALID` if there is no such member, `TIMED_OUT` with the clusters that have not applied it.
 */
export async function drainCluster(
  options: DrainOptions,
  deps: DrainDeps,
  signal: AbortSignal,
): Promise<DrainResult> {
  const { name, mode, placements = false, wait = true, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  await using hub = connect(options.hub, deps);
  await checkReachable(hub, { who: "the hub", config: options.hub }, deps, signal);
  const fleet = summarizeFleet(await readFleet(hub, signal));
  const member = await findDrained(hub, { name, fleet }, signal);
  const servedOnlyHere = mode === undefined ? [] : servedOnlyBy(fleet, name);
  if (options.dryRun === true) return await preview(hub, options, servedOnlyHere, signal);
  await annotate(hub, { member, mode }, signal);
  deps.progress?.(
    mode === undefined ? `requested the end of the drain of ${name}` : `requested the drain of ${name}`,
  );
  const carriedOutBy = wait ? await untilCarriedOut(hub, { name, mode, timeoutMs }, deps, signal) : [];
  const result = { cluster: name, mode: mode ?? ("None" as const), carriedOutBy, servedOnlyHere };
  if (!placements) return result;
  return { ...result, ...(await ofPlacements(hub, { name, mode, wait, timeoutMs }, deps, signal)) };
}

async function preview(
  hub: KubeClient,
  { name, mode, placements = false }: DrainOptions,
  servedOnlyHere: readonly string[],
  signal: AbortSignal,
): Promise<DrainResult> {
  const isDrained = mode !== undefined;
  const result = { cluster: name, mode: mode ?? ("None" as const), carriedOutBy: [], servedOnlyHere };
  if (!placements) return { ...result, dryRun: true };
  const bound = isDrained ? await placementsOn(hub, name, signal) : [];
  return { ...result, dryRun: true, cordoned: isDrained, placements: bound };
}

/** Cordons the cluster and evicts what is placed there, or ends the cordon. */
async function ofPlacements(
  hub: KubeClient,
  { name, mode, wait, timeoutMs }: Wanted & { readonly wait: boolean },
  deps: DrainDeps,
  signal: AbortSignal,
): Promise<Pick<DrainResult, "cordoned" | "placements">> {
  const cordoned = mode !== undefined;
  await cordonCluster(hub, { name, cordoned }, signal);
  deps.progress?.(`${cordoned ? "cordoned" : "uncordoned"} ${name}`);
  if (!cordoned) return { cordoned };
  return { cordoned, placements: await drainPlacements(hub, { name, wait, timeoutMs }, deps, signal) };
}

async function findDrained(
  hub: KubeClient,
  { name, fleet }: { readonly name: string; readonly fleet: FleetStatus },
  signal: AbortSignal,
): Promise<MemberCluster> {
  const member = await hub.find(MEMBER_CLUSTERS, objectKey(undefined, name), { signal });
  if (member !== undefined) return member;
  const known = fleet.clusters.map((it) => it.name).join(", ");
  throw new FleetError(
    "OPTION_INVALID",
    `the fleet has no cluster named ${JSON.stringify(name)}; it has ${known === "" ? "none" : known}`,
  );
}

async function annotate(
  hub: KubeClient,
  { member, mode }: { readonly member: MemberCluster; readonly mode: DrainMode | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (drainModeOf(member) === mode) return;
  const value = mode === undefined ? null : mode === "Hard" ? "hard" : "true";
  await hub.mergePatch(
    MEMBER_CLUSTERS,
    keyOf(member),
    { metadata: { annotations: { [DRAIN_ANNOTATION]: value } } },
    { signal },
  );
}

/** Services with endpoints in a cluster and in no other cluster that is not drained. */
export function servedOnlyBy({ clusters, services }: FleetStatus, name: string): string[] {
  const drained = new Set(clusters.filter((it) => it.drained !== undefined).map((it) => it.name));
  return services
    .filter(({ exports }) => {
      const serving = exports.filter((it) => it.endpoints > 0).map((it) => it.cluster);
      return serving.includes(name) && !serving.some((it) => it !== name && !drained.has(it));
    })
    .map((it) => `${it.namespace}/${it.name}`);
}

interface Wanted {
  readonly name: string;
  readonly mode: DrainMode | undefined;
  readonly timeoutMs: number;
}

/**
 * Each importing cluster writes into the status of its InternalMemberCluster which drains it has carried out.
 *
 * @returns Who has, sorted.
 */
async function untilCarriedOut(
  hub: KubeClient,
  { name, mode, timeoutMs }: Wanted,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<string[]> {
  const reports = await hub.list(NAMESPACE_REPORTS, { signal });
  // Legacy agents write no report and do not support drains.
  const importers = new Set(reports.items.map((it) => it.metadata.namespace));
  await using informer = createInformer(hub, INTERNAL_MEMBER_CLUSTERS, {}, deps);
  const done = Promise.withResolvers<string[]>();
  const look = (): void => {
    if (!informer.hasSynced) return;
    const internalMembers = [...informer.store.list()].filter((it) => importers.has(it.metadata.namespace));
    if (internalMembers.every((it) => hasCarriedOut(it, name, mode)))
      done.resolve(internalMembers.map(clusterOf).toSorted(byText));
  };
  using _timer = deps.clock.after(timeoutMs, () => {
    const waiting = [...informer.store.list()].filter(
      (it) => importers.has(it.metadata.namespace) && !hasCarriedOut(it, name, mode),
    );
    done.reject(new FleetError("TIMED_OUT", describeWaiting(waiting, timeoutMs)));
  });
  using _watch = informer.subscribe(look);
  informer.start(signal);
  informer.synced(signal).then(look, done.reject);
  return await abortable(done.promise, signal);
}

function hasCarriedOut(
  { spec, status }: InternalMemberCluster,
  name: string,
  mode: DrainMode | undefined,
): boolean {
  const [asked, done] = [spec.drained, status?.drained].map(
    (it) => it?.find((one) => one.cluster === name)?.mode,
  );
  return asked === mode && done === mode;
}

function clusterOf({ metadata }: InternalMemberCluster): string {
  return clusterOfMailbox(metadata.namespace) ?? metadata.name;
}

function describeWaiting(waiting: readonly InternalMemberCluster[], timeoutMs: number): string {
  const names = waiting.map(clusterOf).toSorted(byText).join(", ");
  return (
    `timed out after ${timeoutMs / 1000} s waiting for ${names === "" ? "the hub" : names}; the drain remains requested and ` +
    'is applied when they reconnect; see "fairlead status"'
  );
}
