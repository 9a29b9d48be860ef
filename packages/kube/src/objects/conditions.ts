import type { Condition } from "#api/meta/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";

/** A condition as controllers want it: when it changed last follows from the object. */
export type NewCondition = Omit<Condition, "lastTransitionTime">;

/** RFC 3339 in whole seconds, as `metav1.Time` is written. */
export function timestamp(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19)}Z`;
}

/** RFC 3339 with six fractional digits, as `metav1.MicroTime` is written. */
export function microTimestamp(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, -1)}000Z`;
}

/**
 * The conditions with `next` in them. The array given is never changed, and comes back when nothing changes;
 * `lastTransitionTime` moves only when the status does (API Conventions, "Typical status properties").
 */
export function setCondition<C extends Partial<Condition> & Pick<Condition, "type" | "status">>(
  conditions: C[] | undefined,
  next: Omit<C, "lastTransitionTime">,
  clock: Pick<Clock, "now">,
): C[] {
  const present = conditions ?? [];
  const before = present.find((it) => it.type === next.type);
  const sameStatus = before?.status === next.status;
  const lastTransitionTime = sameStatus ? before.lastTransitionTime : undefined;
  const after = { ...next, lastTransitionTime: lastTransitionTime ?? timestamp(clock.now()) } as unknown as C;
  if (before === undefined) return [...present, after];
  if (isSame(before, after)) return present;
  return present.map((it) => (it === before ? after : it));
}

/** The conditions without those of `type`; the same array if it has no such condition. */
export function removeCondition<C extends Pick<Condition, "type">>(
  conditions: C[] | undefined,
  type: string,
): C[] {
  const present = conditions ?? [];
  return present.some((it) => it.type === type) ? present.filter((it) => it.type !== type) : present;
}

export function findCondition<C extends Pick<Condition, "type">>(
  conditions: readonly C[] | undefined,
  type: string,
): C | undefined {
  return conditions?.find((it) => it.type === type);
}

export function isConditionTrue(
  conditions: readonly Pick<Condition, "type" | "status">[] | undefined,
  type: string,
): boolean {
  return findCondition(conditions, type)?.status === "True";
}

/** Fields are flat; an absent one and an undefined one are the same. */
function isSame(a: object, b: object): boolean {
  const [left, right] = [new Map(Object.entries(a)), new Map(Object.entries(b))];
  return [...new Set([...left.keys(), ...right.keys()])].every((key) => left.get(key) === right.get(key));
}
