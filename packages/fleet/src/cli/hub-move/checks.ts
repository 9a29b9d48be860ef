import { HUB_CRDS } from "#api/crds.ts";
import { MEMBER_CLUSTERS, MEMBER_NAME_LABEL } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_UID_ANNOTATION, VERSION_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { parseMemberUser } from "#api/fairlead.dev/identity.ts";
import { MAILBOX_PREFIX } from "#api/networking.fleet.azure.com/names.ts";
import { discoverKinds } from "#placement/selection/discovery.ts";
import { byText } from "@fairlead/base/text.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { checkHub } from "../fleet/checks/hub.ts";
import { checkPermissions } from "../fleet/checks/permissions.ts";
import { checkVersion } from "../fleet/checks/version.ts";
import { type Collection, collect, isFleetKind, isOfFleet, type Item } from "./collect.ts";
import type { Finding } from "../fleet/checks/finding.ts";
import { conflicts } from "./conflicts.ts";
import type { Move } from "./members.ts";

/** What is looked at before a fleet is copied. */

/** In messages. */
const SHOWN = 5;

/** @returns What prevents any step of a move, in either direction; empty: nothing. */
export async function findObstacles({ from, to, signal }: Move): Promise<readonly string[]> {
  const everything = [{ verb: "*", of: { group: "*", plural: "*" } }];
  const findings = await Promise.all([
    checkVersion(from, signal),
    checkVersion(to, signal),
    checkPermissions(from, everything, signal),
    checkPermissions(to, everything, signal),
  ]);
  return findings.filter((it) => it.status === "failed").map((it) => it.message);
}

/** @returns What prevents the copy; empty: nothing. */
export async function findProblems(
  move: Move,
  uids: { readonly from: string; readonly to: string },
  isFirst: boolean,
): Promise<readonly string[]> {
  const { from, to, deps, signal } = move;
  const [there, here] = [await collect(from.client, signal), await collect(to.client, signal)];
  return [
    // Later, the move has paused it.
    ...(isFirst ? hubProblem(await checkHub(to, [], deps, signal)) : []),
    ...hubsAsMembers(move, there, uids),
    ...(await unableMembers(move, there)),
    ...(isFirst ? ownFleet(move, here) : []),
    ...(await ofOthers(move, there, here)),
    ...(await unserved(move, there)),
  ];
}

function hubProblem({ status, message }: Finding): string[] {
  return status === "ok" ? [] : [message];
}

function membersIn(collection: Collection): readonly Item[] {
  return [...collection.values()].filter(
    ({ of }) => of.group === MEMBER_CLUSTERS.group && of.kind === MEMBER_CLUSTERS.kind,
  );
}

function hubsAsMembers(
  { from, to }: Move,
  there: Collection,
  uids: { readonly from: string; readonly to: string },
): string[] {
  return membersIn(there).flatMap(({ key, object }) => {
    const uid = object.metadata.annotations?.[CLUSTER_UID_ANNOTATION];
    const who = uid === uids.from ? from.who : uid === uids.to ? to.who : undefined;
    return who === undefined
      ? []
      : [
          `${who} is the cluster of member ${key}, whose objects would mix with those of the hub; remove the member first (fairlead leave ${key})`,
        ];
  });
}

/** Agents that cannot follow. */
async function unableMembers({ from, signal }: Move, there: Collection): Promise<string[]> {
  const { items } = await from.client.list(LEASES, { labelSelector: MEMBER_NAME_LABEL, signal });
  const ours = new Set(
    items
      .filter((it) => it.metadata.annotations?.[VERSION_ANNOTATION] !== undefined)
      .map((it) => it.metadata.namespace ?? ""),
  );
  const others = membersIn(there).filter(({ key, object }) => {
    const { identity } = (
      object as typeof object & { spec: { identity: { kind: string; name: string; namespace?: string } } }
    ).spec;
    const mailbox = `${MAILBOX_PREFIX}${key}`;
    const isOurs =
      identity.kind === "User"
        ? parseMemberUser(identity.name)?.cluster === key
        : identity.namespace === mailbox;
    return !isOurs || !ours.has(mailbox);
  });
  return others.length === 0
    ? []
    : [
        `the agents of ${list(others.map((it) => it.key))} cannot follow to another hub: they are not "fairlead member", or never reported; remove these members first, and join them to the other hub`,
      ];
}

function ownFleet({ to }: Move, here: Collection): string[] {
  const own = [...here.values()].filter(
    ({ of, object }) =>
      (isFleetKind(of) && !isOfFleet(object.metadata.namespace)) || membersIn(here).length > 0,
  );
  return own.length === 0 ? [] : [`${to.who} has a fleet of its own: ${shown(own)}`];
}

async function ofOthers(move: Move, there: Collection, here: Collection): Promise<string[]> {
  const { different, added } = await conflicts(move, there, here);
  const { who } = move.to;
  return [
    ...(different.length === 0
      ? []
      : [`${who} has other objects by the names of objects that placements select: ${shown(different)}`]),
    ...(added.length === 0
      ? []
      : [`${who} has objects that placements would select there, too: ${shown(added)}; move them first`]),
  ];
}

async function unserved({ to, signal }: Move, there: Collection): Promise<string[]> {
  const read = (path: string): Promise<unknown> => to.client.request("GET", path, undefined, { signal });
  const kinds = await discoverKinds(read, undefined);
  const coming = new Set([
    ...HUB_CRDS.map((it) => it.spec.group),
    ...[...there.values()]
      .filter(({ of }) => of.kind === CUSTOM_RESOURCE_DEFINITIONS.kind)
      .map(({ key }) => key.slice(key.indexOf(".") + 1)),
  ]);
  const missing = [...there.values()].filter(
    ({ of }) => kinds.find(of) === undefined && !coming.has(of.group) && of.kind !== NAMESPACES.kind,
  );
  const names = [...new Set(missing.map(({ of }) => `${of.kind} (${of.group}/${of.version})`))];
  return names.length === 0
    ? []
    : [
        `${to.who} does not serve ${list(names)}, which placements select; install the definitions there first`,
      ];
}

function shown(items: readonly Item[]): string {
  return list(items.map(({ of, key }) => `${of.kind} ${key}`));
}

function list(names: readonly string[]): string {
  const sorted = names.toSorted(byText);
  const more = sorted.length - SHOWN;
  return `${sorted.slice(0, SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
