import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { byText } from "@fairlead/base/text.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  CLUSTER_SCOPE,
  NAMESPACED_SCOPE,
  type PlacementScope,
} from "#api/placement.kubernetes-fleet.io/scopes.ts";
import { type ClusterFacts, clusterFacts } from "#placement/scheduling/cluster.ts";
import { memberAgentOf } from "#placement/scheduling/eligibility.ts";
import {
  explainChange,
  explainPlacement,
  type Explanation,
  type Placed,
} from "#placement/scheduling/explain.ts";
import { parseManifests } from "../policy/manifests.ts";

/** Why a placement has its clusters, read from the hub. */

export interface ExplainQuestion {
  /** Undefined: the placement of `file`. */
  readonly name: string | undefined;
  /** Of a ResourcePlacement. */
  readonly namespace: string | undefined;
  /** The placement as it is to be. Undefined: as it is. */
  readonly file: { readonly name: string; readonly text: string } | undefined;
  /** The only cluster to show. Undefined: all. */
  readonly cluster: string | undefined;
}
export interface PlacementExplanation extends Explanation {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  /** Whether the policy is that of a file, which nothing was applied of. */
  readonly isWhatIf: boolean;
}

/** @throws {FleetError} `OPTION_INVALID`, or what the hub says of a placement that it refuses. */
export async function explainOnHub(
  hub: KubeClient,
  question: ExplainQuestion,
  clock: Clock,
  signal: AbortSignal,
): Promise<PlacementExplanation> {
  const subject = subjectOf(question);
  const { scope, wanted, namespace, name } = subject;
  const { kind } = scope.placements;
  const placed = await readPlaced(hub, subject, clock, signal);
  const explanation = wanted === undefined ? explainPlacement(placed) : explainChange(placed);
  if (explanation === undefined)
    throw new FleetError(
      "API_NOT_FOUND",
      `${kind} ${objectKey(namespace, name)} has no policy snapshot yet: is "fairlead hub" running?`,
    );
  const only = onlyOf(explanation, question.cluster);
  return { kind, ...defined({ namespace }), name, isWhatIf: wanted !== undefined, ...only };
}

/** What is asked about. */
interface Subject {
  readonly scope: PlacementScope;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly wanted: Placement | undefined;
}

function subjectOf({ name: named, namespace: given, file }: ExplainQuestion): Subject {
  if (file === undefined) {
    if (named === undefined)
      throw new FleetError(
        "OPTION_INVALID",
        "no placement is named: pass its name, or a manifest of it with -f",
      );
    const scope = given === undefined ? CLUSTER_SCOPE : NAMESPACED_SCOPE;
    return { scope, namespace: given, name: named, wanted: undefined };
  }
  const wanted = placementIn(file);
  const { name, namespace = given ?? "default" } = wanted.metadata;
  if (named !== undefined && named !== name)
    throw new FleetError("OPTION_INVALID", `${file.name} has placement ${name}, not ${named}`);
  return wanted.kind === "ResourcePlacement"
    ? { scope: NAMESPACED_SCOPE, namespace, name, wanted }
    : { scope: CLUSTER_SCOPE, namespace: undefined, name, wanted };
}

function onlyOf(explanation: Explanation, cluster: string | undefined): Explanation {
  if (cluster === undefined) return explanation;
  const clusters = explanation.clusters.filter((it) => it.cluster === cluster);
  if (clusters.length > 0) return { ...explanation, clusters };
  throw new FleetError("OPTION_INVALID", `the fleet has no cluster ${cluster}`);
}

/** The one placement of a file. */
export function placementIn({ name, text }: { readonly name: string; readonly text: string }): Placement {
  const found = parseManifests(text, name).filter(isPlacement);
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  throw new FleetError("OPTION_INVALID", `${name} has ${found.length} placements; it needs to have one`);
}

function isPlacement(it: KubeObject): it is Placement {
  const isOurs = it.apiVersion?.startsWith("placement.kubernetes-fleet.io/") === true;
  return (
    isOurs && (it.kind === "ClusterResourcePlacement" || it.kind === "ResourcePlacement") && "spec" in it
  );
}

async function readPlaced(
  hub: KubeClient,
  subject: Subject,
  clock: Clock,
  signal: AbortSignal,
): Promise<Placed> {
  const { scope, namespace, name, wanted } = subject;
  const of = { ...defined({ namespace }), labelSelector: `${PARENT_PLACEMENT_LABEL}=${name}`, signal };
  const key = objectKey(namespace, name);
  const current = await hub.find(scope.placements, key, { signal });
  const [placement, snapshots, bindings, members] = await Promise.all([
    wanted === undefined ? current : asStored(hub, { ...subject, wanted }, current, signal),
    hub.list(scope.policySnapshots, of),
    hub.list(scope.bindings, of),
    hub.list(MEMBER_CLUSTERS, { signal }),
  ]);
  if (placement === undefined)
    throw new FleetError("OPTION_INVALID", `the hub has no ${scope.placements.kind} ${key}`);
  const nowMs = clockOfServer(hub, clock).now();
  const known = new Set(members.items.map((it) => it.metadata.name));
  const missing = new Set(bindings.items.map((it) => it.spec.targetCluster)).difference(known);
  const lost = await lostOf(hub, [...missing], signal);
  const clusters = members.items.map((it) => factsAt(it, nowMs)).toSorted((a, b) => byText(a.name, b.name));
  return {
    placement,
    snapshots: snapshots.items,
    bindings: bindings.items,
    clusters: new Map(clusters.map((it) => [it.name, it])),
    isLost: (cluster) => lost.has(cluster),
  };
}

/** Clusters without a MemberCluster whose mailbox is there. */
async function lostOf(
  hub: KubeClient,
  clusters: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const lost = new Set<string>();
  await inParallel(clusters, READS_AT_ONCE, async (cluster) => {
    const mailbox = await hub.find(NAMESPACES, objectKey(undefined, mailboxOf(cluster)), { signal });
    if (mailbox !== undefined && !isDeleting(mailbox)) lost.add(cluster);
  });
  return lost;
}
const READS_AT_ONCE = 8;

/** A dry run: with the defaults that the hub would fill in, and refused where it would be. */
async function asStored(
  hub: KubeClient,
  { scope: { placements: of }, namespace, wanted }: Subject & { readonly wanted: Placement },
  current: Placement | undefined,
  signal: AbortSignal,
): Promise<Placement> {
  const { name } = wanted.metadata;
  const options = { dryRun: true, signal };
  try {
    if (current !== undefined) return await hub.update(of, { ...current, spec: wanted.spec }, options);
    const metadata = { name, ...defined({ namespace }) };
    return await hub.create(of, { metadata, spec: wanted.spec }, options);
  } catch (error) {
    if (!hasCode(error, "API_FORBIDDEN")) throw error;
    const message = `a dry run of ${of.kind} ${name} needs the right to change it`;
    throw new FleetError("API_FORBIDDEN", message, { cause: error });
  }
}

/** A command sees a heartbeat once: its age is by the hub's clock, which the member's should agree with. */
function factsAt(member: MemberCluster, nowMs: number): ClusterFacts {
  const atMs = Date.parse(memberAgentOf(member)?.lastReceivedHeartbeat ?? "");
  return clusterFacts(member, { heartbeatAgeMs: Number.isNaN(atMs) ? 0 : Math.max(0, nowMs - atMs) });
}
