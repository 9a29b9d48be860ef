import type { AddressBlock, NetworkMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";

/** How members move from pod addresses to fleet addresses and back while others use their endpoints. Pure. */

/** How long a member whose pods have no fleet addresses, or that does not do what it is to do, holds up the others. Unit: milliseconds. */
export const TRANSITION_MS = 600_000;

/** How long importers may take to see the new addresses of endpoints before they refuse the old ones. Unit: milliseconds. */
const SETTLE_MS = 5000;

/** How long paths have to last after a change that went back; twice as long after each further time. Unit: milliseconds. */
const RETRY_MS = 15_000;

type Transition = AddressBlock["spec"]["transition"];
type Step = NonNullable<Transition>;
export type Progress = NamespaceReport["spec"]["fleetAddresses"];

interface TransitionView {
  readonly mode: NetworkMode;
  /** Undefined for a member that has no block yet. */
  readonly before: { readonly transition: Transition } | undefined;
  /** Whether pod addresses are of use in the other clusters: they do not overlap. */
  readonly isRoutable: boolean;
  /** Whether all members have a path to each other. */
  readonly isConnected: boolean;
  /** Whether members that have begun to use fleet addresses have no path to each other any more. */
  readonly hasLostPaths: boolean;
  /** Whether members have fleet addresses only. */
  readonly isEstablished: boolean;
  readonly own: Progress;
  /** Of all members that are alive, this one included. */
  readonly all: readonly Progress[];
  /** The steps that members are in. */
  readonly steps: readonly Step[];
  readonly nowMs: number;
}

/** Returns the step that a member is in; undefined if it has fleet addresses only, or "left" if it has none any more. */
export function planTransition(view: TransitionView): Transition | "left" {
  const { mode, before, isRoutable, isEstablished, nowMs } = view;
  if (mode === "flat") return before === undefined ? "left" : leave(view, before.transition);
  // One that joins members with fleet addresses was not used by them before: its endpoints are used when there is a path.
  if (before === undefined) return isRoutable && !isEstablished ? begin("prepare", nowMs) : undefined;
  return before.transition === undefined ? undefined : enter(view, before.transition);
}

/** On the way to fleet addresses, which are used while all members have a path to each other, and not before. */
function enter(view: TransitionView, current: Step): Transition {
  const { isConnected, hasLostPaths, nowMs } = view;
  const { phase, returns = 0 } = current;
  switch (phase) {
    case "prepare":
      return isPrepared(view, current) ? begin("switch", nowMs, returns) : current;
    case "switch":
      if (hasLostPaths) return begin("prepare", nowMs, returns + 1);
      return isSwitched(view, current) ? undefined : current;
    default:
      // The profile is parallel again.
      return begin(isConnected ? "switch" : "prepare", nowMs);
  }
}

function isPrepared({ isConnected, own, all, nowMs }: TransitionView, current: Step): boolean {
  if (!isConnected || ageMs(current, nowMs) < holdMs(current)) return false;
  return isOverdue(current, nowMs) || (own !== undefined && all.every((it) => it !== undefined));
}

/** All at once: until then all can go back. */
function isSwitched({ own, all, steps, nowMs }: TransitionView, current: Step): boolean {
  if (isOverdue(current, nowMs)) return true;
  const areSettled = [current, ...steps].every(
    (it) => it.phase !== "switch" || ageMs(it, nowMs) >= SETTLE_MS,
  );
  return areSettled && own === "InUse" && all.every((it) => it === "InUse");
}

function begin(phase: Step["phase"], nowMs: number, returns = 0): Step {
  return { phase, since: timestamp(nowMs), ...(returns === 0 ? {} : { returns }) };
}

/** How long the paths have to last before fleet addresses are used again. */
function holdMs({ phase, returns = 0 }: Step): number {
  if (phase !== "prepare" || returns === 0) return 0;
  return Math.min(RETRY_MS * 2 ** (returns - 1), TRANSITION_MS);
}

function leave(view: TransitionView, current: Transition): Transition | "left" {
  if (current?.phase !== "leave") return begin("leave", view.nowMs);
  const isDone = !view.all.includes("InUse") && ageMs(current, view.nowMs) >= SETTLE_MS;
  return isDone || isOverdue(current, view.nowMs) ? "left" : current;
}

function isOverdue(transition: Step, nowMs: number): boolean {
  return ageMs(transition, nowMs) >= TRANSITION_MS;
}

/** A time that cannot be read, or is in the future, is over: no clock holds up a member for years. */
function ageMs({ since }: Step, nowMs: number): number {
  const sinceMs = Date.parse(since);
  return Number.isNaN(sinceMs) || sinceMs > nowMs ? Infinity : nowMs - sinceMs;
}

/** When a step may end although nothing changes. */
export function dueInMs(transition: Step, nowMs: number): number {
  const age = ageMs(transition, nowMs);
  const ends = [SETTLE_MS, holdMs(transition), TRANSITION_MS].filter((it) => it > age);
  return ends.length === 0 ? TRANSITION_MS : Math.min(...ends) - age;
}
