import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
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

/** How members reach the hub that has the fleet. */
export interface HubAddress {
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

/** Announces to the members of `from` where the fleet is now, each by its own mailbox, and gives them credentials there. */
export async function callMembers(
  { from, to, deps, signal }: Move,
  names: readonly string[],
  { server, ca, followCa }: HubAddress,
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

/** The Secret, the right to read it, and last the annotation that makes the member read it. */
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

/** Removes the credentials of members that have followed. The annotation with the address of the other hub stays. */
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
