import { oneLine } from "@fairlead/base/print.ts";
import type { ClusterMeshProfile, MeshState } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { PROPAGATION_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { parsePropagation, type Propagation } from "#domain/propagation.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { defined } from "@fairlead/base/defined.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { cutOffIn } from "../fleet/links.ts";
import { type ClusterPath, summarizePaths } from "../fleet/paths.ts";
import { summarizeFleet } from "../fleet/status.ts";
import { compareVersions } from "../fleet/versions.ts";
import { renderData, type ResultOutput } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";
import { type IdentitySnapshot, summarizeIdentities } from "./identities.ts";
import type { MeshSnapshot } from "./read.ts";

/** The state of one profile's network, as `cilium clustermesh status` shows that of a mesh. Pure. */

export interface MeshStatus {
  readonly profile: string;
  readonly state: MeshState;
  readonly error?: string;
  readonly members: readonly PeerStatus[];
  /** Services that several members share, as "namespace/name". */
  readonly globalServices: readonly string[];
  /** Between members; those between which nothing changed in the last hour are absent. */
  readonly propagation: readonly PairPropagation[];
  /** Conditions that are not as they should be. */
  readonly problems: readonly string[];
}

/** How long changes of a member take to arrive at another one: of the last hour, at most 100 changes. */
export interface PairPropagation extends Propagation {
  readonly to: string;
}

interface PeerStatus {
  readonly name: string;
  readonly state: string;
  readonly error?: string;
  /** When its newest data came. RFC 3339. */
  readonly lastSync?: string;
  readonly exports: number;
  readonly endpoints: number;
  /** Of its pods, those that policies of other members know. */
  readonly pods: number;
  readonly version?: string;
  /** Of a parallel network: to how many of the other members it has a tunnel. */
  readonly tunnels?: { readonly up: number; readonly of: number };
}

interface Facts {
  readonly version: string;
  readonly nowMs: number;
  readonly identities?: IdentitySnapshot;
}

const NONE: IdentitySnapshot = { slices: [], demands: [] };

export function summarizeMesh(
  profile: ClusterMeshProfile,
  snapshot: MeshSnapshot,
  { version, nowMs, identities = NONE }: Facts,
): MeshStatus {
  const { clusters, services } = summarizeFleet(snapshot);
  const versions = compareVersions(version, {
    hub: undefined,
    members: snapshot.members,
    leases: snapshot.leases,
  });
  const { name } = profile.metadata;
  const paths = summarizePaths(snapshot, nowMs).filter((it) => it.network === name);
  const states = profile.status?.memberStates ?? [];
  const names = new Set(states.map((it) => it.name));
  const known = new Map([...names].map((it) => [it, summarizeIdentities(identities, it)]));
  return {
    profile: name,
    state: profile.status?.state ?? "NotConnected",
    ...defined({ error: profile.status?.lastOperationError }),
    members: states
      .map(({ name: member, state, error }): PeerStatus => {
        const cluster = clusters.find((it) => it.name === member);
        return {
          name: member,
          state,
          exports: cluster?.exports ?? 0,
          endpoints: cluster?.endpoints ?? 0,
          pods: known.get(member)?.pods ?? 0,
          ...defined({
            error,
            lastSync: latest(cluster?.lastSync, known.get(member)?.newest),
            version: versions.members?.find((it) => it.name === member)?.version,
            tunnels: tunnelsOf(paths.filter((it) => it.from === member)),
          }),
        };
      })
      .toSorted((a, b) => byNaturalText(a.name, b.name)),
    globalServices: services
      .filter((it) => it.exports.filter(({ cluster }) => names.has(cluster)).length > 0)
      .map((it) => `${it.namespace}/${it.name}`),
    propagation: pairsOf(snapshot.leases, names),
    problems: [
      ...(profile.status?.conditions ?? [])
        .filter((it) => (it.status === "False") === POSITIVE.has(it.type))
        .map((it) => `${it.type}: ${it.message}`),
      ...[...known.values()].flatMap((it) => it.problems),
      ...cutOffIn(snapshot.leases, names).map(
        ({ from, to }) => `${from} does not reach the endpoints of ${to}: the data path is cut`,
      ),
    ],
  };
}

function pairsOf(leases: readonly Lease[], names: ReadonlySet<string>): readonly PairPropagation[] {
  return leases
    .filter((it) => isOfMember(it, names))
    .flatMap(({ metadata: { name: to, annotations } }) =>
      parsePropagation(annotations?.[PROPAGATION_ANNOTATION] ?? "").map((it) => ({ ...it, to })),
    )
    .filter((it) => names.has(it.from))
    .toSorted((a, b) => byNaturalText(a.from, b.from) || byNaturalText(a.to, b.to));
}

function isOfMember({ metadata: { namespace, name } }: Lease, names: ReadonlySet<string>): boolean {
  return names.has(name) && namespace === mailboxOf(name);
}

/** RFC 3339. */
function latest(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Date.parse(a) < Date.parse(b) ? b : a;
}

/** Conditions that are well when they are True; the others are well when they are False. */
const POSITIVE: ReadonlySet<string> = new Set(["Ready", "NodeAgentsInstalled"]);

function tunnelsOf(paths: readonly ClusterPath[]): PeerStatus["tunnels"] {
  const isUp = ({ tunnels }: ClusterPath): boolean =>
    tunnels.some(({ path }) => path !== "none" && path !== "unknown");
  return paths.length === 0 ? undefined : { up: paths.filter(isUp).length, of: paths.length };
}

export function renderMeshStatus(status: MeshStatus, output: ResultOutput, nowMs: number): string {
  if (output !== "text") return renderData(status, output);
  const { members, globalServices, propagation, problems } = status;
  const connected = members.filter((it) => it.state === "Connected").length;
  const head = `${status.profile}: ${status.state}, ${connected} of ${members.length} members connected, ${globalServices.length} services shared`;
  const hasTunnels = members.some((it) => it.tunnels !== undefined);
  const columns: readonly Column<PeerStatus>[] = [
    { head: "MEMBER", cell: (it) => it.name },
    { head: "STATE", cell: (it) => it.state },
    {
      head: "NEWEST DATA",
      cell: ({ lastSync }) => (lastSync === undefined ? "never" : renderAge(nowMs - Date.parse(lastSync))),
    },
    ...(propagation.length === 0 ? [] : slowestOf(propagation)),
    ...(hasTunnels ? [TUNNELS] : []),
    { head: "EXPORTS", cell: (it) => String(it.exports) },
    { head: "ENDPOINTS", cell: (it) => String(it.endpoints) },
    { head: "PODS", cell: (it) => String(it.pods) },
    { head: "VERSION", cell: (it) => it.version ?? "-" },
    { head: "ERROR", cell: (it) => it.error ?? "-" },
  ];
  return [
    oneLine(head),
    ...(members.length === 0 ? [] : [renderTable(columns, members)]),
    ...problems.map((it) => `  ${oneLine(it)}`),
  ].join("\n");
}

/** To the member that they take the longest to. */
function slowestOf(propagation: readonly PairPropagation[]): readonly Column<PeerStatus>[] {
  const cell = (key: "p50Ms" | "p99Ms") => (peer: PeerStatus) => {
    const all = propagation.filter((it) => it.from === peer.name).map((it) => it[key]);
    return all.length === 0 ? "-" : `${Math.max(...all)}ms`;
  };
  return [
    { head: "P50", cell: cell("p50Ms") },
    { head: "P99", cell: cell("p99Ms") },
  ];
}

const TUNNELS: Column<PeerStatus> = {
  head: "TUNNELS",
  cell: ({ tunnels }) => (tunnels === undefined ? "-" : `${tunnels.up}/${tunnels.of}`),
};
