import type { AddressBlock, NetworkMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";

/** How members move from pod addresses to fleet addresses and back while others use their endpoints. Pure. */

/** How long a member that is not ready, or does not do what it is to do, holds up the others. Unit: milliseconds. */
export const TRANSITION_MS = 600_000;

/** How long importers may take to see the new addresses of endpoints before they refuse the old ones. Unit: milliseconds. */
const SETTLE_MS = 5000;

type Transition = AddressBlock["spec"]["transition"];
type Step = NonNullable<Transition>;
export type Progress = NamespaceReport["spec"]["fleetAddresses"];

interface TransitionView {
  readonly mode: NetworkMode;
  /** Undefined for a member that has no block yet. */
  readonly before: { readonly transition: Transition } | undefined;
  /** Whether pod addresses are of use in the other clusters: they do not overlap. */
  readonly isRoutable: boolean;
  readonly own: Progress;
  /** Of all members that are alive, this one included. */
  readonly all: readonly Progress[];
  readonly nowMs: number;
}

/** Returns the step that a member is in; undefined if it has fleet addresses only, or "left" if it has none any more. */
export function planTransition(view: TransitionView): Transition | "left" {
  const { mode, before, isRoutable, nowMs } = view;
  if (mode === "flat") return before === undefined ? "left" : leave(view, before.transition);
  const current = before?.transition;
  if (before === undefined) return isRoutable ? { phase: "prepare", since: timestamp(nowMs) } : undefined;
  return current === undefined || isOver(view, current) ? next(current, nowMs) : current;
}

function leave(view: TransitionView, current: Transition): Transition | "left" {
  if (current?.phase !== "leave") return { phase: "leave", since: timestamp(view.nowMs) };
  const isDone = !view.all.includes("InUse") && ageMs(current, view.nowMs) >= SETTLE_MS;
  return isDone || isOverdue(current, view.nowMs) ? "left" : current;
}

/** Whether a step on the way to fleet addresses is over. */
function isOver({ own, all, nowMs }: TransitionView, current: Step): boolean {
  if (isOverdue(current, nowMs)) return true;
  switch (current.phase) {
    case "prepare":
      return own !== undefined && all.every((it) => it !== undefined);
    case "switch":
      return own === "InUse" && ageMs(current, nowMs) >= SETTLE_MS;
    default:
      // The profile is parallel again.
      return true;
  }
}

function next(current: Transition, nowMs: number): Transition {
  return current === undefined || current.phase === "switch"
    ? undefined
    : { phase: "switch", since: timestamp(nowMs) };
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
  const endMs = [SETTLE_MS, TRANSITION_MS].find((it) => it > age);
  return endMs === undefined ? 0 : endMs - age;
}
