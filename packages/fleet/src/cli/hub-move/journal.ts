import { HUB_STATES, type HubState, MOVE_JOURNAL } from "#api/fairlead.dev/hub-move.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { CLI_MANAGER } from "../fleet/steps.ts";

/**
 * How far a move is: a ConfigMap in both hubs. What is done next follows from the two states alone, so that a command that was killed
 * anywhere is repeated, in either direction.
 */
export interface Journal {
  readonly state: HubState;
  /** UID of the other hub's kube-system namespace. */
  readonly peer: string;
  /** URL of the other hub, for people. */
  readonly peerServer: string;
}

/** "copy": the first hub has the fleet. "send": the second one has it, and its members may still be with the first one. */
export type MovePlan = { readonly kind: "copy" | "send" } | { readonly kind: "refuse"; readonly why: string };

/** What to do to move the fleet, given the states of both hubs in a move between them; undefined: none. */
export function planMove(from: HubState | undefined, to: HubState | undefined): MovePlan {
  const refuse = (why: string): MovePlan => ({ kind: "refuse", why });
  if (from === "Retired")
    return to === undefined || to === "Retired"
      ? refuse("neither hub has the fleet; restore one of them from a backup")
      : { kind: "send" };
  if (from === "Receiving")
    return to === "Sending" || to === "Active"
      ? { kind: "send" }
      : refuse("the former is an incomplete copy");
  if (to === "Active") return refuse("the latter has a fleet of its own");
  // The way back of a move that had not copied anything yet.
  if (to === "Sending") return from === undefined ? { kind: "send" } : refuse("both hubs have a fleet");
  return { kind: "copy" };
}

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, MOVE_JOURNAL);

export async function readJournal(client: KubeClient, signal: AbortSignal): Promise<Journal | undefined> {
  const found = await client.find(CONFIG_MAPS, KEY, { signal });
  if (found === undefined) return undefined;
  const { state: said = "", peer = "", peerServer = "" } = found.data ?? {};
  const state = HUB_STATES.find((it) => it === said);
  if (state !== undefined && peer !== "") return { state, peer, peerServer };
  throw new FleetError(
    "PRECONDITION_FAILED",
    `ConfigMap ${KEY}: state must be one of ${HUB_STATES.join(", ")}`,
  );
}

export async function writeJournal(
  client: KubeClient,
  { state, peer, peerServer }: Journal,
  signal: AbortSignal,
): Promise<void> {
  const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name: MOVE_JOURNAL };
  const data = { state, peer, peerServer };
  await client.apply(CONFIG_MAPS, { metadata, data }, { fieldManager: CLI_MANAGER, signal });
}

/**
 * The state of a hub in the move between it and `peer`. One that ended elsewhere counts as none.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` if the hub is in a move to or from another one.
 */
export function stateWith(journal: Journal | undefined, who: string, peer: string): HubState | undefined {
  if (journal === undefined || journal.peer === peer) return journal?.state;
  if (journal.state === "Active") return undefined;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `${who} is ${journal.state} in a move to or from ${journal.peerServer}; finish that one first`,
  );
}
