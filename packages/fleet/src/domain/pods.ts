import type { CoreEvent, Pod, PodCondition } from "@fairlead/kube/api/core/v1/types.ts";

/** The reason why a pod does not run. */

/** The nearest thing to a cause that a pod's status has. */
export function whyNotRunning(pod: Pod | undefined): string {
  if (pod === undefined) return "it was deleted";
  const { phase = "Pending", conditions = [], containerStatuses = [], message } = pod.status ?? {};
  const [container] = containerStatuses;
  const waiting = container?.state?.waiting;
  if (waiting !== undefined) return [joined(waiting), lastEnd(pod)].filter(Boolean).join("; ");
  return missingOf(conditions) ?? message ?? `it is ${phase}`;
}

function missingOf(conditions: readonly PodCondition[]): string | undefined {
  const of = (type: string) => conditions.find((it) => it.type === type && it.status === "False");
  const missing = of("PodScheduled") ?? of("Initialized") ?? of("ContainersReady");
  return missing?.message ?? missing?.reason;
}

/** The last exit of a container that restarts repeatedly. */
function lastEnd(pod: Pod): string {
  const ended = pod.status?.containerStatuses?.[0]?.lastState?.terminated;
  if (ended === undefined) return "";
  const { exitCode, reason = "", message = "" } = ended;
  return `it ended with ${exitCode} ${[reason, message.trim()].filter(Boolean).join(": ")}`.trim();
}

function joined({ reason, message }: { readonly reason?: string; readonly message?: string }): string {
  return [reason, message].filter((it) => it !== undefined && it !== "").join(": ");
}

export function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some((it) => it.type === "Ready" && it.status === "True") === true;
}

/** The last warning that was given about an object. */
export function lastWarning(events: readonly CoreEvent[], uid: string | undefined): string | undefined {
  const about = events.filter((it) => it.type === "Warning" && it.involvedObject.uid === uid);
  const last = about.toSorted((a, b) => timeOf(a) - timeOf(b)).at(-1);
  return last === undefined ? undefined : joined(last);
}

function timeOf({ lastTimestamp, eventTime, metadata }: CoreEvent): number {
  return Date.parse(lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? "") || 0;
}
