import { HUB_CRDS } from "#api/crds.ts";
import { installPolicies } from "#authz/policies/install.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { installMissingCrds } from "@fairlead/kube/definitions/crds.ts";
import type { Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { clusterUid } from "../fleet/clusters.ts";
import { accountSubject, CERTIFICATE_RIGHTS, signsCertificates } from "../fleet/identity.ts";
import { isOwnAuthority } from "../fleet/join.ts";
import { CLI_MANAGER } from "../fleet/steps.ts";
import { findObstacles, findProblems } from "./checks.ts";
import { collect } from "./collect.ts";
import { type Exclusive, exclusively } from "./exclusive.ts";
import type { HubState } from "#api/fairlead.dev/hub-move.ts";
import { planMove, readJournal, stateWith, writeJournal } from "./journal.ts";
import { pauseHub, resumeHub } from "./lease.ts";
import { awaitMembers, readMembersByHub } from "./await-members.ts";
import { callMembers, type Move, problemOf, recallMembers, withdrawOffers } from "./members.ts";
import { sync } from "./sync.ts";

/** Moves a fleet from one hub to another, or back. */

export interface MoveOptions extends Move, Exclusive {
  readonly configs: { readonly from: ClusterConfig; readonly to: ClusterConfig };
  /** How members reach the hub that gets the fleet. Default: as the caller does. */
  readonly hubServer?: string;
  readonly hubCa?: string;
  /** Refuses to begin a move: there is one to go back from. */
  readonly isBack?: boolean;
  /** How long members may take to switch. Unit: milliseconds. */
  readonly timeoutMs: number;
  /** Silence after which a member is not waited for. Unit: milliseconds. Default: 20 s. */
  readonly awayMs?: number;
}

/** Passes of the copy: what changes during one is copied by the next. */
const PASSES = 4;

export interface Moved {
  /** Members that are with the hub that has the fleet. */
  readonly moved: readonly string[];
  /** Members that do not answer; they follow when they are back. */
  readonly away: readonly string[];
}

/** The UIDs by which the two hubs know each other. */
interface Hubs {
  readonly from: string;
  readonly to: string;
}

/**
 * Moves the fleet of `from` to `to`. Repeated after it was stopped anywhere, it continues; with the two hubs exchanged, it goes back.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` if the move is not possible; `TIMED_OUT` if members do not switch in time.
 */
export async function moveHub(options: MoveOptions): Promise<Moved> {
  const { hubs } = await readStates(options);
  refuse(await findObstacles(options));
  return exclusively(options, hubs, (signal) => moveAlone({ ...options, signal }));
}

async function moveAlone(options: MoveOptions): Promise<Moved> {
  const { from, to, deps, signal, progress } = options;
  const { hubs, states, kind } = await readStates(options);
  if (kind === "copy") {
    refuse(await findProblems(options, hubs, states.to === undefined));
    progress("checked both hubs");
    await copyFleet(options, hubs);
  }
  // From this write on, the fleet is with the other hub.
  await write(options, "from", "Retired", hubs);
  await pauseHub(from, deps, signal);
  await recallMembers(to, signal);
  await write(options, "to", "Active", hubs);
  await resumeHub(to, signal);
  progress(`${to.who} has the fleet, and its program runs`);
  return sendMembers(options);
}

/** What a move would do. Does not write. */
export async function planHubMove(options: MoveOptions): Promise<readonly string[]> {
  const { from, to, signal } = options;
  const { hubs, states, kind } = await readStates(options);
  refuse(await findObstacles(options));
  if (kind === "send") return [`${to.who} has the fleet: call the members that are with ${from.who}`];
  refuse(await findProblems(options, hubs, states.to === undefined));
  const all = [...(await collect(from.client, signal)).values()];
  const kinds = Map.groupBy(all, (it) => it.of.kind);
  const counts = [...kinds].map(([name, items]) => `${items.length} ${name}`).toSorted();
  return [
    `pause the program of ${from.who} and that of ${to.who}`,
    `copy ${all.length} objects to ${to.who}: ${counts.join(", ")}`,
    `resume the program of ${to.who}`,
    `call ${kinds.get(MEMBER_CLUSTERS.kind)?.length ?? 0} members to ${to.who}`,
  ];
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new FleetError("PRECONDITION_FAILED", problems.join("; "));
}

async function readStates(options: MoveOptions) {
  const { from, to, isBack = false, signal } = options;
  const [fromUid, toUid] = await Promise.all([
    clusterUid(from.client, from.who, signal),
    clusterUid(to.client, to.who, signal),
  ]);
  if (fromUid === toUid) throw new FleetError("OPTION_INVALID", "--from and --to are the same hub");
  const [before, after] = await Promise.all([
    readJournal(from.client, signal),
    readJournal(to.client, signal),
  ]);
  const states = {
    from: stateWith(before, from.who, toUid),
    to: stateWith(after, to.who, fromUid),
  };
  if (isBack && states.from === undefined && states.to === undefined)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `there is no move between ${from.who} and ${to.who} to go back from`,
    );
  const plan = planMove(states.from, states.to);
  if (plan.kind === "refuse")
    throw new FleetError(
      "PRECONDITION_FAILED",
      `cannot move the fleet of ${from.who} to ${to.who}: ${plan.why}`,
    );
  return { hubs: { from: fromUid, to: toUid }, states, kind: plan.kind };
}

function write(
  { from, to, configs, signal }: MoveOptions,
  side: "from" | "to",
  state: HubState,
  hubs: Hubs,
): Promise<void> {
  const other = side === "from" ? "to" : "from";
  const { client } = side === "from" ? from : to;
  return writeJournal(client, { state, peer: hubs[other], peerServer: configs[other].server }, signal);
}

async function copyFleet(options: MoveOptions, hubs: Hubs): Promise<void> {
  const { from, to, deps, signal, progress } = options;
  // First the hub that has the fleet, so that it is known which one that is.
  await write(options, "from", "Sending", hubs);
  await write(options, "to", "Receiving", hubs);
  await Promise.all([pauseHub(from, deps, signal), pauseHub(to, deps, signal)]);
  progress("paused the programs of both hubs");
  await installMissingCrds(to.client, { crds: HUB_CRDS, fieldManager: HUB_MANAGER }, deps, signal);
  await installPolicies(to.client, deps.log, signal);
  for (const { of, object } of CERTIFICATE_RIGHTS)
    await to.client.apply(of, object, { fieldManager: CLI_MANAGER, signal });
  const isSigner = await signsCertificates(to.client, deps, signal);
  const identityOf = (name: string, identity: Subject): Subject =>
    identity.kind === "User" && !isSigner ? accountSubject(name) : identity;
  const target = { client: to.client, deps, signal };
  let objects = 0;
  for (let pass = 1; pass <= PASSES; pass += 1) {
    const synced = await sync({ from: from.client, target, identityOf });
    ({ objects } = synced);
    if (synced.written === 0) break;
  }
  await verifyCopy(options);
  progress(`copied ${objects} objects to ${to.who}`);
}

/** What placements select has to be the same there, or the hub would change what is placed. */
async function verifyCopy({ from, to, signal }: MoveOptions): Promise<void> {
  const [there, here] = [await collect(from.client, signal), await collect(to.client, signal)];
  const different = [...there]
    .filter(([name, it]) => it.content !== undefined && !sameJson(here.get(name)?.content, it.content))
    .map(([, { of, key }]) => `${of.kind} ${key}`);
  const more = [...here]
    .filter(([name, it]) => it.content !== undefined && there.get(name)?.content === undefined)
    .map(([, { of, key }]) => `${of.kind} ${key}`);
  const [first] = [...different, ...more];
  if (first === undefined) return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `placements would place ${first} differently from ${to.who}; nothing has moved: correct it on ${to.who} or ${from.who}, and run the command again, or with --back`,
  );
}

async function sendMembers(options: MoveOptions): Promise<Moved> {
  const { from, to, configs, timeoutMs, signal, progress } = options;
  const server = options.hubServer ?? configs.to.server;
  const ca = options.hubCa ?? configs.to.ca;
  const followCa = ca !== undefined && (await isOwnAuthority(to.client, ca, signal));
  const { staying } = await readMembersByHub(options);
  await callMembers(options, staying, { server, ca, followCa });
  const {
    moved,
    staying: left,
    present,
  } = await awaitMembers(options, options, (name) => progress(`${name} is with ${to.who}`));
  await withdrawOffers(from, moved, signal);
  if (present.length === 0) return { moved, away: left };
  const [first = ""] = present;
  const why = await problemOf(from, first, signal);
  throw new FleetError(
    "TIMED_OUT",
    `${present.join(", ")} did not switch to ${to.who} within ${timeoutMs / 1000} s, and stay with ${from.who}` +
      `${why === undefined ? "" : ` (${first}: ${why})`}; run the command again, or with --back`,
  );
}
