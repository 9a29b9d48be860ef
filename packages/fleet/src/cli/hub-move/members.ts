import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { delay } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { byText } from "@fairlead/base/text.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { EVENTS, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  FOLLOW_SECONDS,
  NEXT_HUB,
  NEXT_HUB_ANNOTATION,
  NEXT_HUB_FAILED,
} from "#api/fairlead.dev/hub-move.ts";
import { HUB_KEYS, TOKEN_SECONDS } from "#api/fairlead.dev/hub-secret.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { issueAccountToken, issueBootstrapToken } from "../fleet/identity.ts";
import { CLI_MANAGER, type Side } from "../fleet/steps.ts";

/** Where members are to find the hub that has the fleet. */
export interface Whereabouts {
  readonly server: string;
  /** PEM; undefined: the authorities of the system. */
  readonly ca: string | undefined;
  readonly followCa: boolean;
}

export interface Move {
  readonly from: Side;
  readonly to: Side;
  readonly deps: RuntimeDeps;
  readonly signal: AbortSignal;
}

const CONCURRENCY = 16;
/** Between two looks at the members. Unit: milliseconds. */
const LOOK_MS = 500;
/** A member renews its Lease three times within 15 s: one that did not for so long is away. Unit: milliseconds. */
const AWAY_MS = 20_000;

/** Announces to the members of `from` where the fleet is now, each by its own mailbox, and gives them credentials there. */
export async function callMembers(
  { from, to, deps, signal }: Move,
  names: readonly string[],
  { server, ca, followCa }: Whereabouts,
): Promise<void> {
  await inParallel(names, CONCURRENCY, async (name) => {
    const key = objectKey(undefined, name);
    const [before, after] = await Promise.all([
      from.client.find(MEMBER_CLUSTERS, key, { signal }),
      to.client.find(MEMBER_CLUSTERS, key, { signal }),
    ]);
    // One that joined later was never with the other hub.
    if (before === undefined || after === undefined) return;
    const { identity } = after.spec;
    const proof: Readonly<Record<string, string>> =
      identity.kind === "User"
        ? {
            [HUB_KEYS.user]: identity.name,
            [HUB_KEYS.bootstrapToken]: await issueBootstrapToken(
              to,
              name,
              { seconds: FOLLOW_SECONDS },
              signal,
            ),
          }
        : { [HUB_KEYS.token]: await issueAccountToken(to, name, TOKEN_SECONDS, signal) };
    const fields = {
      [HUB_KEYS.server]: server,
      [HUB_KEYS.ca]: ca ?? "",
      [HUB_KEYS.followCa]: String(followCa),
      [HUB_KEYS.cluster]: name,
      ...proof,
    };
    await offer(from.client, before, { fields, at: timestamp(deps.clock.now()) }, signal);
  });
}

/** The Secret, the right to read it, and last the word that it is there. */
async function offer(
  client: KubeClient,
  member: MemberCluster,
  { fields, at }: { readonly fields: Readonly<Record<string, string>>; readonly at: string },
  signal: AbortSignal,
): Promise<void> {
  const { name } = member.metadata;
  const namespace = mailboxOf(name);
  const metadata = { namespace, name: NEXT_HUB };
  const by = { fieldManager: CLI_MANAGER, signal };
  const data = Object.fromEntries(
    Object.entries(fields).map(([field, text]) => [field, Buffer.from(text, "utf8").toString("base64")]),
  );
  await client.apply(SECRETS, { metadata, type: "Opaque", data }, by);
  const rules = [{ apiGroups: [""], resources: ["secrets"], resourceNames: [NEXT_HUB], verbs: ["get"] }];
  await client.apply(ROLES, { metadata, rules }, by);
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: NEXT_HUB } as const;
  await client.apply(ROLE_BINDINGS, { metadata, roleRef, subjects: [member.spec.identity] }, by);
  const annotations = { [NEXT_HUB_ANNOTATION]: `${fields[HUB_KEYS.server]} ${at}` };
  await client.mergePatch(
    INTERNAL_MEMBER_CLUSTERS,
    objectKey(namespace, name),
    { metadata: { annotations } },
    { signal },
  );
}

/** The credentials of members that have followed. What tells them where the fleet is stays. */
export async function withdrawOffers(
  { client }: Side,
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await inParallel(names, CONCURRENCY, (name) =>
    client.delete(SECRETS, objectKey(mailboxOf(name), NEXT_HUB), { signal }),
  );
}

/** Withdraws what asks members to leave this hub. */
export async function recallMembers({ client }: Side, signal: AbortSignal): Promise<void> {
  const { items } = await client.list(INTERNAL_MEMBER_CLUSTERS, { signal });
  await inParallel(items, CONCURRENCY, async ({ metadata: { name, namespace = "", annotations } }) => {
    if (annotations?.[NEXT_HUB_ANNOTATION] !== undefined)
      await client.mergePatch(
        INTERNAL_MEMBER_CLUSTERS,
        objectKey(namespace, name),
        { metadata: { annotations: { [NEXT_HUB_ANNOTATION]: null } } },
        { signal },
      );
    const key = objectKey(namespace, NEXT_HUB);
    for (const kind of [ROLE_BINDINGS, ROLES, SECRETS]) await client.delete(kind, key, { signal });
  });
}

/** When each member last renewed its Lease or reported, by its own clock. */
async function lastSeen(client: KubeClient, signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
  const [leases, members] = await Promise.all([
    client.list(LEASES, { signal }),
    client.list(INTERNAL_MEMBER_CLUSTERS, { signal }),
  ]);
  const seen = new Map<string, number>();
  const note = (mailbox: string | undefined, time: string | undefined): void => {
    const ms = Date.parse(time ?? "");
    if (mailbox !== undefined && !Number.isNaN(ms)) seen.set(mailbox, Math.max(ms, seen.get(mailbox) ?? 0));
  };
  for (const { metadata, spec } of leases.items) note(metadata.namespace, spec?.renewTime);
  for (const { metadata, status } of members.items)
    for (const it of status?.agentStatus ?? []) note(metadata.namespace, it.lastReceivedHeartbeat);
  return seen;
}

export interface Whither {
  /** With the hub that has the fleet. */
  readonly moved: readonly string[];
  readonly staying: readonly string[];
}

/** Which members are with which hub: a member is where it reported last. */
export async function whereMembersAre({ from, to, signal }: Move): Promise<Whither> {
  const [there, here, { items }] = await Promise.all([
    lastSeen(from.client, signal),
    lastSeen(to.client, signal),
    to.client.list(MEMBER_CLUSTERS, { signal }),
  ]);
  const names = items.map((it) => it.metadata.name).toSorted(byText);
  const hasMoved = (name: string): boolean => {
    const [before, after] = [there.get(mailboxOf(name)), here.get(mailboxOf(name))];
    return before === undefined || (after !== undefined && after > before);
  };
  return { moved: names.filter(hasMoved), staying: names.filter((it) => !hasMoved(it)) };
}

/**
 * Waits until all members have switched, but for those that are away. @returns Where they are.
 *
 * @throws Nothing when time is up: `present` has those that answer and have not switched.
 */
export async function awaitMembers(
  move: Move,
  { timeoutMs, awayMs = AWAY_MS }: { readonly timeoutMs: number; readonly awayMs?: number | undefined },
  onMoved: (name: string) => void,
): Promise<Whither & { readonly present: readonly string[] }> {
  const { from, deps, signal } = move;
  const { clock } = deps;
  const began = clock.monotonic();
  const told = new Set<string>();
  const renewed = new Map<string, { readonly time: number | undefined; readonly atMs: number }>();
  for (;;) {
    const now = await whereMembersAre(move);
    for (const it of now.moved.filter((name) => !told.has(name))) {
      told.add(it);
      onMoved(it);
    }
    const seen = await lastSeen(from.client, signal);
    const present = now.staying.filter((name) => {
      const time = seen.get(mailboxOf(name));
      const known = renewed.get(name);
      if (known?.time !== time || known === undefined) renewed.set(name, { time, atMs: clock.monotonic() });
      return clock.monotonic() - (renewed.get(name)?.atMs ?? 0) < awayMs;
    });
    if (present.length === 0 || clock.monotonic() - began >= timeoutMs) return { ...now, present };
    await delay(clock, LOOK_MS, signal);
  }
}

/** What a member said of why it cannot switch. */
export async function problemOf(
  { client }: Side,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { items } = await client.list(EVENTS, { namespace: mailboxOf(name), signal });
    return items.findLast((it) => it.reason === NEXT_HUB_FAILED)?.message;
  } catch (error) {
    if (hasCode(error, "API_FORBIDDEN", "API_NOT_FOUND")) return undefined;
    throw error;
  }
}
