import { HEARTBEAT_SECONDS } from "#api/cluster.kubernetes-fleet.io/defaults.ts";
import { HUB_MANAGER, MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  VALIDATING_ADMISSION_POLICIES,
  type ValidatingAdmissionPolicy,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { MAILBOX_POLICIES } from "#authz/policies/policies.ts";
import { installPolicies } from "#authz/policies/install.ts";
import { NAMESPACES, type Secret, SECRETS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "#api/crds.ts";
import type { Manifest } from "#authz/manifests.ts";
import { bootstrapAccount, memberUser } from "#api/fairlead.dev/identity.ts";
import { CLUSTER_UID_ANNOTATION, HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { HUB_KEYS, readCertificateLife, readHubSecret } from "#api/fairlead.dev/hub-secret.ts";
import { TOKEN_SECONDS } from "#api/fairlead.dev/hub-secret.ts";
import { isApplied } from "@fairlead/kube/objects/apply.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import {
  CERTIFICATE_RIGHTS,
  certificateSubject,
  accountSubject,
  issueAccountToken,
  issueBootstrapToken,
  planIdentity,
  signsCertificates,
} from "./identity.ts";
import { takesCredential } from "./clusters.ts";
import { forgetMember } from "./leave.ts";
import { listOrNone, markInactive, removeImports } from "./leave-member.ts";
import { DEFAULT_TIMEOUT_MS, type JoinDeps, type JoinOptions } from "./join-options.ts";
import {
  applyWanted,
  type Change,
  CLI_MANAGER,
  planWanted,
  restore,
  type Side,
  type Step,
  UndoLog,
} from "./steps.ts";

/** The steps of a join in the two clusters, in order. */

export interface Joining {
  readonly options: JoinOptions;
  readonly deps: JoinDeps;
  readonly hub: Side;
  readonly member: Side;
  /** The member's: by which a cluster is known again. */
  readonly uid: string;
  /** As the hub had it before. */
  readonly present: MemberCluster | undefined;
  /** The addresses of the member that the hub stores. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Whether the authorities that the member knows the hub by are the hub's own. */
  readonly followCa: boolean;
  readonly signal: AbortSignal;
}

export function timeoutOf({ options }: Joining): number {
  return options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
}

export function kindsStep(joining: Joining, where: "hub" | "member"): Step {
  const { deps, signal } = joining;
  const side = joining[where];
  const [crds, fieldManager] = where === "hub" ? [HUB_CRDS, HUB_MANAGER] : [MEMBER_CRDS, MEMBER_MANAGER];
  const policies = where === "hub" ? MAILBOX_POLICIES : [];
  return {
    title: `install the CRDs in ${side.who}`,
    plan: () =>
      Promise.all([
        ...crds.map((crd) => planCrd(side, crd, fieldManager, signal)),
        ...policies.map((it) => planPolicy(side, it, signal)),
      ]),
    // Not undone: deleting a CRD deletes every object of that kind, and the policies protect other members too.
    run: async () => {
      await installCrds(side.client, { crds, fieldManager }, deps, signal);
      if (where === "hub") await installPolicies(side.client, deps.log, signal);
    },
  };
}

async function planCrd(
  side: Side,
  crd: CustomResourceDefinition,
  fieldManager: string,
  signal: AbortSignal,
): Promise<Change> {
  const { name } = crd.metadata;
  const before = await side.client.find(CUSTOM_RESOURCE_DEFINITIONS, objectKey(undefined, name), { signal });
  const isSame = before !== undefined && isApplied(before, crd, { fieldManager });
  const verb = before === undefined ? "create" : isSame ? "none" : "update";
  return { cluster: side.who, verb, kind: "CustomResourceDefinition", name };
}

/** With its binding. */
async function planPolicy(
  { who, client }: Side,
  { metadata }: ValidatingAdmissionPolicy,
  signal: AbortSignal,
): Promise<Change> {
  const { name } = metadata;
  const before = await client.find(VALIDATING_ADMISSION_POLICIES, objectKey(undefined, name), { signal });
  const verb = before === undefined ? "create" : "none";
  return { cluster: who, verb, kind: "ValidatingAdmissionPolicy", name };
}

const SYSTEM: Manifest = { of: NAMESPACES, object: { metadata: { name: FLEET_SYSTEM_NAMESPACE } } };

export function objectsStep(
  title: string,
  side: Side,
  manifests: readonly Manifest[],
  signal: AbortSignal,
): Step {
  return {
    title,
    plan: () => Promise.all(manifests.map((it) => planWanted(side, it, signal))),
    run: async (undo) => {
      for (const it of manifests) await applyWanted(side, it, undo, signal);
    },
  };
}

export function prepareHubStep({ options, hub, signal }: Joining): Step {
  const title = "allow members to request certificates from the hub";
  const step = objectsStep(title, hub, [SYSTEM, ...CERTIFICATE_RIGHTS], signal);
  return {
    ...step,
    run: async (undo) => {
      const own = new UndoLog();
      undo.add(`the permission to request certificates from ${hub.who}`, async () => {
        // Another member may have joined since and need this.
        const members = await listOrNone(hub.client, MEMBER_CLUSTERS, {});
        if (members.some((it) => it.metadata.name !== options.name)) return;
        const left = await own.run();
        if (left.length > 0) throw new FleetError("API_UNEXPECTED", left.join("; "));
      });
      return step.run(own);
    },
  };
}

export function prepareMemberStep({ member, signal }: Joining): Step {
  return objectsStep(`make namespace ${FLEET_SYSTEM_NAMESPACE} in ${member.who}`, member, [SYSTEM], signal);
}

/** The MemberCluster, with the identity that the member is to have. */
export function registerStep(joining: Joining): Step {
  const { options, deps, hub, present, signal } = joining;
  const { name, identity: kind, rotate = false } = options;
  const key = objectKey(undefined, name);
  const known = planIdentity(name, present, { kind, rotate });
  return {
    title: `register ${name} with the hub`,
    plan: () => {
      const cluster = hub.who;
      if (present === undefined)
        return Promise.resolve<Change[]>([
          {
            cluster,
            verb: "create",
            kind: "MemberCluster",
            name,
            note: `identity: ${known?.name ?? `${memberUser(name)} if the hub signs certificates, else a ServiceAccount; a test request determines which`}`,
          },
          {
            cluster,
            verb: "create",
            kind: "Namespace",
            name: mailboxOf(name),
            note: "by the hub, with its permissions",
          },
        ]);
      const isSame = isRegistered(joining, known ?? present.spec.identity);
      return Promise.resolve<Change[]>([
        {
          cluster,
          verb: isSame ? "none" : "update",
          kind: "MemberCluster",
          name,
          note: `identity: ${known?.name}${isAdopted(present) ? "; adopted: it has no cluster UID" : ""}`,
        },
      ]);
    },
    run: async (undo) => {
      const identity = known ?? (await askHub(joining));
      if (present === undefined) {
        undo.add(`MemberCluster ${name} of ${hub.who}`, () => forgetMember(hub.client, name));
        const metadata = {
          name,
          annotations: { ...joining.annotations, [CLUSTER_UID_ANNOTATION]: joining.uid },
        };
        const spec = { identity, heartbeatPeriodSeconds: options.heartbeatSeconds ?? HEARTBEAT_SECONDS };
        try {
          await hub.client.create(MEMBER_CLUSTERS, { metadata, spec }, { signal });
        } catch (error) {
          if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
          // What was done up to here the other one needs, too.
          undo.keep();
          throw new FleetError(
            "API_ALREADY_EXISTS",
            `${name} is being registered by another join; wait until it finishes, and see "fairlead status"`,
            { cause: error },
          );
        }
      } else if (!isRegistered(joining, identity)) {
        undo.add(`MemberCluster ${name} of ${hub.who}`, () => restore(hub.client, MEMBER_CLUSTERS, present));
        const metadata = {
          annotations: { ...joining.annotations, [CLUSTER_UID_ANNOTATION]: joining.uid },
        };
        // A merge would keep fields of the previous identity.
        const whole = { apiGroup: null, namespace: null, ...identity };
        await hub.client.mergePatch(
          MEMBER_CLUSTERS,
          key,
          { metadata, spec: { identity: whole } },
          { signal },
        );
      }
      await waitFor(
        hub.client,
        {
          of: NAMESPACES,
          key: objectKey(undefined, mailboxOf(name)),
          timeoutMs: timeoutOf(joining),
          until: (it) => it !== undefined && !isDeleting(it),
          message: () =>
            `the hub did not create namespace ${mailboxOf(name)} within ${timeoutOf(joining) / 1000} s; check that "fairlead hub" runs`,
        },
        deps,
        signal,
      );
      if (present === undefined) return undefined;
      if (!isAdopted(present)) {
        const [was, is] = [present.spec.identity.name, identity.name];
        return was === is ? "already there" : `identity rotated from ${was} to ${is}`;
      }
      return `adopted MemberCluster ${name}, which had no cluster UID; its identity was ${present.spec.identity.kind} ${present.spec.identity.name}`;
    },
  };
}

/** Whether another program created the MemberCluster, so that it has no cluster UID yet. */
function isAdopted(present: MemberCluster): boolean {
  return present.metadata.annotations?.[CLUSTER_UID_ANNOTATION] === undefined;
}

function isRegistered({ present, annotations, uid }: Joining, identity: Subject): boolean {
  const now = present?.metadata.annotations ?? {};
  const hasAll = Object.entries({ ...annotations, [CLUSTER_UID_ANNOTATION]: uid }).every(
    ([key, value]) => now[key] === value,
  );
  return hasAll && sameJson(present?.spec.identity, identity);
}

async function askHub({ options, deps, hub, signal }: Joining): Promise<Subject> {
  const signs = await signsCertificates(hub.client, deps, signal);
  return signs ? certificateSubject(options.name, 1) : accountSubject(options.name);
}

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
  const token = await issueBootstrapToken(hub, name, undo, signal);
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
