import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type {
  ClusterMeshProfile,
  MeshMemberState,
  MeshMemberStatus,
  MeshState,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Selected } from "#domain/mesh-members.ts";
import { defined } from "@fairlead/base/defined.ts";
import { byText } from "@fairlead/base/text.ts";
import { findCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import { listed } from "./plan-addresses.ts";
import { describePairs, type Pair } from "./plan-paths.ts";
import type { Progress } from "./plan-transition.ts";

/** The states of a profile and of its members, with the names that Azure's API has for them. Pure. */

/** How long a member may take to connect. Unit: milliseconds. Azure's value. */
export const CONNECT_MS = 900_000;

/** What the hub knows of a member's way into a network. */
export interface Contact {
  /** The profile that its InternalMemberCluster names. */
  readonly profile: string | undefined;
  /** Whether its agent reports that it uses the network's view; for one that is isolated, whether it gets copies. */
  readonly isReading: boolean;
  /** Whether it has fleet addresses. */
  readonly hasBlock: boolean;
  /** Whether its network changes its mode. */
  readonly isChanging: boolean;
  readonly fleetAddresses: Progress;
  /** The members to which it has no path. */
  readonly unreached: readonly string[];
}

export interface StatesView {
  readonly selected: Selected;
  readonly contactOf: (cluster: string) => Contact | undefined;
  /** Members of other profiles, or of none, that still use the network. */
  readonly former: readonly string[];
  /** What is wrong with the network as a whole. */
  readonly problem: string | undefined;
  readonly unconnected: readonly Pair[];
  readonly nowMs: number;
}

export interface StatesPlan {
  readonly state: MeshState;
  readonly memberStates: MeshMemberStatus[];
  readonly error: string | undefined;
  readonly againInMs: number | undefined;
}

type Found = readonly [state: MeshMemberState, error?: string | undefined];

export function planStates(view: StatesView): StatesPlan {
  const { selected, former, nowMs } = view;
  const { profile, members, leaving, elsewhere, beyond, absent } = selected;
  const isManual = profile.spec.apply === "Manual";
  const before = new Map((profile.status?.memberStates ?? []).map((it) => [it.name, it]));
  const found = new Map<string, Found>([
    ...former.map((it) => [it, ["Disconnecting"]] as const),
    ...leaving.map((it) => [it.metadata.name, ["Disconnecting"]] as const),
    ...members.map((it) => [it.metadata.name, stateOf(it, before, view)] as const),
    ...absent.map((it) => [it, ["Failed", "the fleet has no member of this name"]] as const),
    ...beyond.map((it) => [it, ["Failed", "the profile has 255 members, which is the limit"]] as const),
    ...(isManual
      ? elsewhere.map((it) => [it.member, ["Failed", `it belongs to profile ${it.profile}`]] as const)
      : []),
  ]);
  const isNew = isManual && profile.status?.lastOperationId !== profile.spec.applied?.operation;
  const memberStates = [...found]
    .toSorted(([a], [b]) => byText(a, b))
    .map(([name, it]) => withTime(name, it, { before: before.get(name), isNew, nowMs }));
  const dueInMs = memberStates
    .filter((it) => it.state === "Connecting")
    .map((it) => Date.parse(it.lastUpdatedAt) + CONNECT_MS - nowMs);
  const problem = view.problem ?? pathProblem(memberStates, view.unconnected);
  return {
    state: stateOfAll(memberStates, { selected, problem }),
    memberStates,
    error: errorOf(memberStates, { selected, problem }),
    againInMs: dueInMs.length === 0 ? undefined : Math.max(1, Math.min(...dueInMs)),
  };
}

function stateOf(
  member: MemberCluster,
  before: ReadonlyMap<string, MeshMemberStatus>,
  { selected, contactOf }: StatesView,
): Found {
  const { name } = member.metadata;
  const { profile, members } = selected;
  const health = findCondition(member.status?.conditions, "Healthy");
  if (health?.status === "False") return ["Unknown", `its agent does not answer: ${health.message}`];
  const contact = contactOf(name);
  if (contact === undefined) return ["Connecting", "its agent has not reported yet"];
  if (contact.profile !== profile.metadata.name || !contact.isReading)
    return ["Connecting", "its agent has not opened the network yet"];
  if (profile.spec.network.mode === "flat") return ["Connected"];
  if (!contact.hasBlock) return ["Connecting", "it has no fleet addresses yet; see condition Ready"];
  const isReady = contact.fleetAddresses !== undefined || members.length === 1;
  if (!isReady) return ["Connecting", 'its gateways are not connected yet; see "fairlead status --paths"'];
  return stateByPaths(name, contact, { members, before });
}

function stateByPaths(
  name: string,
  { unreached, isChanging }: Contact,
  { members, before }: Pick<Selected, "members"> & { readonly before: ReadonlyMap<string, MeshMemberStatus> },
): Found {
  if (unreached.length === 0) return ["Connected"];
  const error = `no path to ${listed(unreached)}; see "fairlead status --paths"`;
  const state = before.get(name)?.state;
  if (isChanging || (state !== "Connected" && state !== "Failed")) return ["Connecting", error];
  // One that reaches some members is part of the network; the path that it lacks is a problem of the network.
  const present = members.filter((it) => !isSilent(it));
  if (state === "Connected" && unreached.length < present.length - 1) return ["Connected"];
  const isLost = state === "Failed" || unreached.some((it) => before.get(it)?.state === "Connected");
  return [isLost ? "Failed" : "Connecting", error];
}

/** Whether the agent of a member does not answer. */
export function isSilent(member: MemberCluster | undefined): boolean {
  return findCondition(member?.status?.conditions, "Healthy")?.status === "False";
}

/** Members that have no path to each other, once none is on its way into the network. */
function pathProblem(states: readonly MeshMemberStatus[], unconnected: readonly Pair[]): string | undefined {
  if (unconnected.length === 0 || states.some((it) => it.state === "Connecting")) return undefined;
  return describePairs(unconnected);
}

interface Before {
  readonly before: MeshMemberStatus | undefined;
  /** Whether a plan was applied since. */
  readonly isNew: boolean;
  readonly nowMs: number;
}

function withTime(name: string, found: Found, at: Before): MeshMemberStatus {
  const [state, error] = timedOut(found, at);
  const { before, isNew, nowMs } = at;
  const isBegun = isNew && state === "Connecting";
  const isKept = before?.state === state && !isBegun && Date.parse(before.lastUpdatedAt) <= nowMs;
  const lastUpdatedAt = isKept ? before.lastUpdatedAt : timestamp(nowMs);
  return { name, state, ...defined({ error }), lastUpdatedAt };
}

/** Without a new plan, a member that failed to connect stays so until it is connected. */
function timedOut([state, error]: Found, { before, isNew, nowMs }: Before): Found {
  if (state !== "Connecting" || isNew || before === undefined) return [state, error];
  const isOver = before.state === "Connecting" && nowMs - Date.parse(before.lastUpdatedAt) >= CONNECT_MS;
  if (!isOver && before.state !== "Failed") return [state, error];
  return ["Failed", `not connected after 15 min: ${error ?? ""}`];
}

type Whole = Pick<StatesView, "selected" | "problem">;

function stateOfAll(states: readonly MeshMemberStatus[], { selected, problem }: Whole): MeshState {
  const has = (...wanted: readonly MeshMemberState[]): boolean =>
    states.some((it) => wanted.includes(it.state));
  if (selected.problem !== undefined) return "Failed";
  if (states.length === 0) return "NotConnected";
  if (has("Connecting", "Disconnecting")) return "Applying";
  if (!has("Connected")) return "Failed";
  return has("Failed", "Unknown") || problem !== undefined ? "Degraded" : "Connected";
}

const MOST_REPORTED = 10;

function errorOf(states: readonly MeshMemberStatus[], { selected, problem }: Whole): string | undefined {
  if (selected.problem !== undefined) return selected.problem;
  const failed = states.filter((it) => it.state === "Failed" || it.state === "Unknown");
  const reported = failed.slice(0, MOST_REPORTED).map((it) => `${it.name}: ${it.error ?? it.state}`);
  const more = failed.length > MOST_REPORTED ? [`and ${failed.length - MOST_REPORTED} other members`] : [];
  const all = [...(problem === undefined ? [] : [problem]), ...reported, ...more];
  return all.length === 0 ? undefined : all.join("; ");
}

/** Returns what applying a manual profile would change; undefined if nothing would. */
export function driftOf(
  { spec }: ClusterMeshProfile,
  selected: readonly string[],
  isSameSettings: boolean,
): string | undefined {
  const applied = new Set(spec.applied?.members);
  const wanted = new Set(selected);
  const named = (names: ReadonlySet<string>): string => {
    const all = [...names].toSorted(byText);
    const more = all.length - MOST_REPORTED;
    return `${all.slice(0, MOST_REPORTED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  };
  const [added, removed] = [wanted.difference(applied), applied.difference(wanted)];
  const changes = [
    ...(added.size === 0 ? [] : [`add ${named(added)}`]),
    ...(removed.size === 0 ? [] : [`remove ${named(removed)}`]),
    ...(isSameSettings || spec.applied === undefined ? [] : ["change settings"]),
  ];
  return changes.length === 0 ? undefined : changes.join(", ");
}
