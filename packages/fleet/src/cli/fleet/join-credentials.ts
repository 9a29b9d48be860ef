import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type Secret, SECRETS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { bootstrapAccount } from "#api/fairlead.dev/identity.ts";
import { HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { HUB_KEYS, readCertificateLife, readHubSecret } from "#api/fairlead.dev/hub-secret.ts";
import { TOKEN_SECONDS } from "#api/fairlead.dev/hub-secret.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { issueAccountToken, issueBootstrapToken, planIdentity } from "./identity.ts";
import { takesCredential } from "./clusters.ts";
import { markInactive, removeImports } from "./leave-member.ts";
import type { UndoLog } from "./steps.ts";
import { CLI_MANAGER, restore, type Step } from "./steps.ts";
import type { Joining } from "./joining.ts";

const SECRET_KEY = objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET);

/** The first credentials of the member, and the address of the hub. */
export function equipStep(joining: Joining): Step {
  const { options, hub, member, present, signal } = joining;
  const { name } = options;
  return {
    title: `store the address of the hub in ${member.who}`,
    plan: async () => {
      const before = await member.client.find(SECRETS, SECRET_KEY, { signal });
      const { identity: kind, rotate = false } = options;
      const identity = planIdentity(name, present, { kind, rotate });
      const isCertified = identity !== undefined && (await isCertifiedFor(before, identity, joining));
      const account = `${FLEET_SYSTEM_NAMESPACE}/${bootstrapAccount(name)}`;
      const note = "server, CA and a token that is valid until the member joins";
      return [
        ...(isCertified
          ? []
          : [
              {
                cluster: hub.who,
                verb: "create",
                kind: "ServiceAccount",
                name: account,
                note: "deleted when the join ends",
              } as const,
              { cluster: hub.who, verb: "issue", kind: "TokenRequest", name: account } as const,
            ]),
        {
          cluster: member.who,
          verb: before === undefined ? "create" : "update",
          kind: "Secret",
          name: SECRET_KEY,
          note,
        },
      ];
    },
    run: async (undo) => {
      const registered = await hub.client.get(MEMBER_CLUSTERS, objectKey(undefined, name), { signal });
      const before = await member.client.find(SECRETS, SECRET_KEY, { signal });
      const proof = await proofFor(joining, registered.spec.identity, before, undo);
      undo.add(`Secret ${SECRET_KEY} of ${member.who}`, () =>
        before === undefined ? forgetHub(joining) : restore(member.client, SECRETS, before),
      );
      if (before !== undefined && proof.isNew) await dropProof(joining);
      const fields = { ...whereabouts(joining), ...proof.fields };
      const data = Object.fromEntries(
        Object.entries(fields).map(([field, text]) => [field, Buffer.from(text, "utf8").toString("base64")]),
      );
      await member.client.apply(
        SECRETS,
        { metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: HUB_SECRET }, type: "Opaque", data },
        { fieldManager: CLI_MANAGER, signal },
      );
      if (before === undefined) return undefined;
      return proof.isNew ? "with a new token, replacing the previous one" : "already there";
    },
  };
}

/** Without its Secret a running agent stops, and removes nothing. */
async function forgetHub({ options, deps, member: { client } }: Joining): Promise<void> {
  await client.delete(SECRETS, SECRET_KEY);
  await removeImports(client);
  await markInactive(client, { name: options.name, clock: deps.clock });
}

function whereabouts({ options, followCa }: Joining): Record<string, string> {
  return {
    [HUB_KEYS.server]: options.hubServer ?? options.hub.server,
    [HUB_KEYS.ca]: options.hubCa ?? options.hub.ca ?? "",
    [HUB_KEYS.followCa]: String(followCa),
    [HUB_KEYS.cluster]: options.name,
  };
}

interface NewProof {
  readonly fields: Readonly<Record<string, string>>;
  readonly isNew: boolean;
}

async function proofFor(
  joining: Joining,
  identity: Subject,
  before: Secret | undefined,
  undo: UndoLog,
): Promise<NewProof> {
  const { options, hub, signal } = joining;
  const { name } = options;
  if (identity.kind !== "User") {
    const token = await issueAccountToken(hub, name, TOKEN_SECONDS, signal);
    return { fields: { [HUB_KEYS.token]: token }, isNew: true };
  }
  const user = { [HUB_KEYS.user]: identity.name };
  if (await isCertifiedFor(before, identity, joining)) return { fields: user, isNew: false };
  const token = await issueBootstrapToken(hub, name, { undo }, signal);
  return { fields: { ...user, [HUB_KEYS.bootstrapToken]: token }, isNew: true };
}

/** Whether the member has a certificate of this identity, in time by the clock here, and the hub takes it. */
async function isCertifiedFor(
  secret: Secret | undefined,
  identity: Subject,
  { options, deps, signal }: Joining,
): Promise<boolean> {
  const read = secret === undefined ? undefined : readHubSecret(secret);
  if (read?.kind !== "access" || read.access.cluster !== options.name) return false;
  const { proof } = read.access;
  if (proof.kind !== "certificate" || proof.user !== identity.name) return false;
  if (readCertificateLife(proof.pair.cert).untilMs <= deps.clock.now()) return false;
  const { cert: certificate, key } = proof.pair;
  return takesCredential(
    { ...options.hub, credentials: fixedCredentials({ certificate, key }) },
    deps,
    signal,
  );
}

async function dropProof({ member, signal }: Joining): Promise<void> {
  const keys = [HUB_KEYS.certificate, HUB_KEYS.key, HUB_KEYS.nextKey, HUB_KEYS.token];
  const data = Object.fromEntries(keys.map((key) => [key, null]));
  await member.client.mergePatch(SECRETS, SECRET_KEY, { data }, { signal });
}

/** The account that the token was of goes once the token did its work. */
export async function consume({ options, hub, signal }: Joining): Promise<void> {
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, bootstrapAccount(options.name));
  await hub.client.delete(SERVICE_ACCOUNTS, key, { signal });
}
