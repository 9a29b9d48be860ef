import { shortHash } from "#api/fairlead.dev/cluster-names.ts";
import {
  type AppliedMesh,
  type ClusterMeshProfile,
  MAX_MESH_MEMBERS,
  type MeshMemberState,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { byText } from "@fairlead/base/text.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { formatMemberSelector } from "./member-selector.ts";
import { isManual, type Selected, selectMembers, selectorOf, settingsOf } from "./mesh-members.ts";
import {
  changedObjects,
  type MeshFleet,
  meshObjects,
  type ObjectChange,
  withApplied,
} from "./mesh-objects.ts";

/**
 * What applying a profile changes, and in which steps: what `fairlead mesh apply --what-if` shows is what
 * `fairlead mesh apply` writes. Pure.
 */

/** "-": stays as it is. */
export type PlanAction = "Add" | "Remove" | "-" | "Error";

export interface PlanRow {
  readonly action: PlanAction;
  readonly member: string;
  readonly state: MeshMemberState;
  /** Why the member cannot be added. */
  readonly error?: string;
}

export interface MeshPlan {
  readonly profile: string;
  /** Why nothing can be applied; empty if it can. */
  readonly problems: readonly string[];
  readonly rows: readonly PlanRow[];
  /** Names of settings that change for all members. */
  readonly settings: readonly string[];
  /** What is to be in force. */
  readonly target: AppliedMesh;
  readonly changes: readonly ObjectChange[];
}

/** @param goal - What is to be in force. Undefined: what the profile asks for. */
export function planMesh(fleet: MeshFleet, name: string, goal?: AppliedMesh): MeshPlan {
  const profile = fleet.profiles.find((it) => it.metadata.name === name);
  if (profile === undefined) throw new RangeError(`no profile ${name}`);
  const selected = selectMembers(fleet.profiles, fleet.members);
  const { target, problem } = targetOf(fleet, profile, goal);
  const rows = planRows(profile, target.members, selected);
  const errors = rows.filter((it) => it.error !== undefined).map((it) => `${it.member}: ${it.error}`);
  const { applied } = profile.spec;
  const isSame = applied !== undefined && sameJson(withoutOperation(applied), withoutOperation(target));
  const wanted = isSame ? applied : target;
  const after = withApplied(fleet, name, wanted);
  return {
    profile: name,
    problems: [...(problem === undefined ? [] : [problem]), ...errors],
    rows,
    settings: changedSettings(applied, wanted),
    target: wanted,
    changes: changedObjects(meshObjects(fleet), meshObjects(after)),
  };
}

/**
 * The steps from what is in force to the target. All at once by default: between steps, members that wait do not share
 * services with those that have moved, even if they did before.
 *
 * @param most - Members that come or go in one step.
 */
export function stepsTo(
  before: AppliedMesh | undefined,
  target: AppliedMesh,
  most = Number.POSITIVE_INFINITY,
): readonly AppliedMesh[] {
  if (sameJson(before, target)) return [];
  const present = before?.members ?? [];
  const wanted = new Set(target.members);
  const moves = [
    ...present.filter((it) => !wanted.has(it)),
    ...target.members.filter((it) => !present.includes(it)),
  ];
  const count = Math.max(1, Math.ceil(moves.length / most));
  return Array.from({ length: count }, (_, at) => {
    const moved = new Set(at + 1 === count ? moves : moves.slice(0, (at + 1) * most));
    const members = [...new Set(present).symmetricDifference(moved)].toSorted(byText);
    return { ...target, members };
  });
}

interface Target {
  readonly target: AppliedMesh;
  readonly problem?: string;
}

function targetOf(fleet: MeshFleet, profile: ClusterMeshProfile, goal: AppliedMesh | undefined): Target {
  const { applied, memberSelector } = profile.spec;
  if (goal !== undefined) return { target: goal };
  const matches = selectorOf(profile);
  const settings = settingsOf(profile.spec);
  if (typeof matches === "string") {
    const kept = applied ?? { ...settings, members: [], memberSelector: "", operation: "" };
    return { target: kept, problem: matches };
  }
  const members = fleet.members
    .filter((it) => !isDeleting(it) && matches(it.metadata.labels))
    .map((it) => it.metadata.name)
    .toSorted(byText);
  const target = named({ ...settings, members, memberSelector: formatMemberSelector(memberSelector) });
  if (!isManual(profile))
    return { target, problem: "spec.apply is Continuous: the hub applies each change at once" };
  return members.length <= MAX_MESH_MEMBERS
    ? { target }
    : {
        target,
        problem: `the selector matches ${members.length} members, and a profile has at most ${MAX_MESH_MEMBERS}; narrow spec.memberSelector`,
      };
}

/** Equal plans have equal names. */
export function named(applied: Omit<AppliedMesh, "operation">): AppliedMesh {
  return { ...applied, operation: shortHash(JSON.stringify(applied), 12) };
}

function withoutOperation({ operation: _name, ...rest }: AppliedMesh): Omit<AppliedMesh, "operation"> {
  return rest;
}

const SETTINGS = [
  "network",
  "version",
  "dataplane",
  "defaultGlobalNamespace",
  "policyDefaultLocalCluster",
  "policyCIDRMatchMode",
  "keyRotationHours",
] as const;

function changedSettings(before: AppliedMesh | undefined, after: AppliedMesh): string[] {
  if (before === undefined) return [];
  return SETTINGS.filter((it) => !sameJson(before[it], after[it]));
}

function planRows(
  profile: ClusterMeshProfile,
  wanted: readonly string[],
  selected: readonly Selected[],
): PlanRow[] {
  const { name } = profile.metadata;
  const applied = new Set(profile.spec.applied?.members);
  const states = new Map((profile.status?.memberStates ?? []).map((it) => [it.name, it.state]));
  const owners = new Map(
    selected.flatMap((it) => it.members.map((one) => [one.metadata.name, it.profile.metadata.name] as const)),
  );
  const rows = [...new Set([...wanted, ...applied])].toSorted(byText).map((member): PlanRow => {
    const state = states.get(member) ?? "NotConnected";
    if (!wanted.includes(member)) return { action: "Remove", member, state };
    const owner = owners.get(member);
    if (owner !== undefined && owner !== name) {
      const error = `it belongs to profile ${owner}; a member has one profile: change its labels, or the selector of one of them`;
      return { action: "Error", member, state, error };
    }
    return { action: applied.has(member) ? "-" : "Add", member, state };
  });
  return rows;
}
