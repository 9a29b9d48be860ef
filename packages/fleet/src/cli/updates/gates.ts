import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type Gate, GATES, UPDATE_RUNS } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { insteadOf } from "./actions.ts";

/** What `fairlead gate` reads and writes on the hub. */

/** The gates of a run, or of all, oldest first. */
export async function listGates(
  hub: KubeClient,
  run: string | undefined,
  signal: AbortSignal,
): Promise<readonly Gate[]> {
  const { items } = await hub.list(GATES, { signal });
  const created = (it: Gate): string => it.metadata.creationTimestamp ?? "";
  return items
    .filter((it) => run === undefined || it.spec.target.updateRunProperties.name === run)
    .toSorted((a, b) => created(a).localeCompare(created(b)));
}

/** @param name - The name of the gate, or the beginning of it. */
export async function findGate(hub: KubeClient, name: string, signal: AbortSignal): Promise<Gate> {
  if (name === "") throw new FleetError("OPTION_INVALID", "pass the name of a gate, or the beginning of it");
  const { items } = await hub.list(GATES, { signal });
  const found = items.filter((it) => it.metadata.name.startsWith(name));
  const [gate, other] = found;
  if (gate === undefined)
    throw new FleetError("OPTION_INVALID", `there is no gate ${name}; ${pendingIn(items)}`);
  if (other !== undefined)
    throw new FleetError("OPTION_INVALID", `${found.length} gates begin with ${name}; pass more of the name`);
  return gate;
}

/** @param name - As in `findGate`. */
export async function approveGate(hub: KubeClient, name: string, signal: AbortSignal): Promise<Gate> {
  const gate = await findGate(hub, name, signal);
  if (gate.spec.state !== "Pending")
    throw new FleetError("PRECONDITION_FAILED", `gate ${gate.metadata.name} is ${gate.spec.state} already`);
  const key = objectKey(undefined, gate.metadata.name);
  return hub.mergePatch(GATES, key, { spec: { state: "Completed" } }, { signal });
}

/** In a message. */
const MAX_SHOWN_GATES = 5;

function pendingIn(gates: readonly Gate[]): string {
  const pending = gates
    .filter((it) => it.spec.state === "Pending")
    .map(
      ({ metadata, spec }) =>
        `${metadata.name} (${JSON.stringify(spec.displayName)} of run ${spec.target.updateRunProperties.name})`,
    );
  if (pending.length === 0) return "none is pending";
  const more = pending.length > MAX_SHOWN_GATES ? `, and ${pending.length - MAX_SHOWN_GATES} more` : "";
  return `pending are ${pending.slice(0, MAX_SHOWN_GATES).join(", ")}${more}`;
}

/** Why the run of a gate that was approved does not continue; undefined: it does, or may not be read. */
export async function obstacleAfter(
  hub: KubeClient,
  { spec }: Gate,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { name } = spec.target.updateRunProperties;
  try {
    const run = await hub.find(UPDATE_RUNS, objectKey(undefined, name), { signal });
    const state = run?.status?.status.state ?? "NotStarted";
    if (run === undefined) return `its run ${name} is gone`;
    return state === "Running" || state === "Pending"
      ? undefined
      : `run ${name} is ${state}: ${insteadOf(state, name)}`;
  } catch (error) {
    if (hasCode(error, "API_FORBIDDEN")) return undefined;
    throw error;
  }
}
