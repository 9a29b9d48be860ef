import { randomBytes } from "node:crypto";
import {
  CERTIFICATE_SIGNING_REQUESTS,
  type CertificateSigningRequest,
  CLIENT_SIGNER,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { rulesOf } from "#authz/access.ts";
import type { Manifest } from "#authz/manifests.ts";
import { ASK_FOR_CERTIFICATES } from "#authz/programs.ts";
import {
  bootstrapAccount,
  BOOTSTRAP_SECONDS,
  JOINS_LABEL,
  LIFE_ANNOTATION,
  MEMBERS_GROUP,
  memberUser,
  parseMemberUser,
} from "#api/fairlead.dev/identity.ts";
import { MEMBER_ACCOUNT } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, type Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { requestToken } from "@fairlead/kube/client/token-request.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import { createCertificateRequest } from "@fairlead/base/pki/request.ts";
import type { Side, UndoLog } from "./steps.ts";

/** The identity that a member gets on its hub. */

export type IdentityKind = "certificate" | "token";

const RBAC = "rbac.authorization.k8s.io";
const ROLE = "fairlead-certificates";

/** On the hub: who may ask for certificates. Asking alone gives nothing; the hub approves or denies. */
export const CERTIFICATE_RIGHTS: readonly Manifest[] = [
  {
    of: CLUSTER_ROLES,
    object: { metadata: { name: ROLE }, rules: rulesOf(ASK_FOR_CERTIFICATES) } as Manifest["object"],
  },
  {
    of: CLUSTER_ROLE_BINDINGS,
    object: {
      metadata: { name: ROLE },
      roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: ROLE },
      subjects: [
        { kind: "Group", apiGroup: RBAC, name: MEMBERS_GROUP },
        { kind: "Group", apiGroup: RBAC, name: `system:serviceaccounts:${FLEET_SYSTEM_NAMESPACE}` },
      ],
    } as Manifest["object"],
  },
];

export function certificateSubject(name: string, generation: number): Subject {
  return { kind: "User", apiGroup: RBAC, name: memberUser(name, generation) };
}

export function accountSubject(name: string): Subject {
  return { kind: "ServiceAccount", name: MEMBER_ACCOUNT, namespace: mailboxOf(name) };
}

/** The identity for a member, given its present one. Undefined if it depends on what the hub supports. */
export function planIdentity(
  name: string,
  present: MemberCluster | undefined,
  wish: { readonly kind: IdentityKind | undefined; readonly rotate: boolean },
): Subject | undefined {
  const current = currentOf(name, present);
  const kind = wish.kind ?? current?.kind;
  if (kind === undefined) return undefined;
  if (kind === "token") return accountSubject(name);
  if (current?.generation === undefined) return certificateSubject(name, 1);
  return certificateSubject(name, wish.rotate ? current.generation + 1 : current.generation);
}

function currentOf(
  name: string,
  present: MemberCluster | undefined,
): { readonly kind: IdentityKind; readonly generation?: number } | undefined {
  if (present === undefined) return undefined;
  const { identity } = present.spec;
  const parsed = identity.kind === "User" ? parseMemberUser(identity.name) : undefined;
  if (parsed?.cluster !== name) return { kind: "token" };
  return { kind: "certificate", generation: parsed.generation };
}

/** How long a hub's signer may take before it counts as none. Unit: milliseconds. */
const SIGNING_MS = 10_000;

/**
 * Whether the hub signs client certificates, which no API reports. Requests and approves a certificate for a user without
 * permissions, and discards it.
 */
export async function signsCertificates(
  hub: KubeClient,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const name = `fleet-join-probe-${randomBytes(6).toString("hex")}`;
  const key = objectKey(undefined, name);
  const pem = createCertificateRequest(generatePrivateKey(), {
    commonName: "fleet:probe",
    organizations: [],
  });
  const spec = {
    request: Buffer.from(pem).toString("base64"),
    signerName: CLIENT_SIGNER,
    usages: ["digital signature", "client auth"],
    expirationSeconds: 600,
  };
  try {
    const asked = await hub.create(CERTIFICATE_SIGNING_REQUESTS, { metadata: { name }, spec }, { signal });
    const conditions = [
      {
        type: "Approved",
        status: "True" as const,
        reason: "FleetJoin",
        message: "tests whether the hub signs certificates",
      },
    ];
    await hub.update(
      CERTIFICATE_SIGNING_REQUESTS,
      { ...asked, status: { conditions } },
      { subresource: "approval", signal },
    );
    const done = await waitFor(
      hub,
      {
        of: CERTIFICATE_SIGNING_REQUESTS,
        key,
        timeoutMs: SIGNING_MS,
        until: (it) => it?.status?.certificate !== undefined || hasFailed(it),
        message: () => "not signed",
      },
      deps,
      signal,
    );
    return done?.status?.certificate !== undefined;
  } catch (error) {
    if (hasCode(error, "TIMED_OUT")) return false;
    if (hasCode(error, "API_FORBIDDEN"))
      throw new FleetError(
        "API_FORBIDDEN",
        "cannot determine whether the hub signs client certificates: missing permission to request and approve one; " +
          "pass --identity certificate or --identity token",
        { cause: error },
      );
    throw error;
  } finally {
    // If this fails, the request has no effect, and the API server deletes old requests.
    await hub.delete(CERTIFICATE_SIGNING_REQUESTS, key).catch(() => {});
  }
}

function hasFailed(request: CertificateSigningRequest | undefined): boolean {
  return request?.status?.conditions?.some((it) => it.type === "Failed" || it.type === "Denied") === true;
}

/**
 * A token that is good for one certificate of one member, for a quarter of an hour unless said otherwise. Its ServiceAccount exists
 * only for this join and is deleted with it.
 */
export async function issueBootstrapToken(
  hub: Side,
  cluster: string,
  { undo, seconds = BOOTSTRAP_SECONDS }: { readonly undo?: UndoLog; readonly seconds?: number },
  signal: AbortSignal,
): Promise<string> {
  const name = bootstrapAccount(cluster);
  const namespace = FLEET_SYSTEM_NAMESPACE;
  const key = objectKey(namespace, name);
  // Tokens of the one before end with it: a token names the uid of its account.
  await hub.client.delete(SERVICE_ACCOUNTS, key, { signal });
  undo?.add(`ServiceAccount ${key} of ${hub.who}`, () => hub.client.delete(SERVICE_ACCOUNTS, key));
  const labels = { [JOINS_LABEL]: cluster };
  const annotations = seconds === BOOTSTRAP_SECONDS ? {} : { [LIFE_ANNOTATION]: String(seconds) };
  await hub.client.create(
    SERVICE_ACCOUNTS,
    { metadata: { namespace, name, labels, annotations }, automountServiceAccountToken: false },
    { signal },
  );
  return requestToken(hub.client, { namespace, name, seconds }, signal);
}

/** The token of the member's account in its mailbox, for hubs that sign no certificates. The agent renews it. */
export async function issueAccountToken(
  hub: Side,
  cluster: string,
  seconds: number,
  signal: AbortSignal,
): Promise<string> {
  const account = { namespace: mailboxOf(cluster), name: MEMBER_ACCOUNT };
  try {
    await hub.client.create(SERVICE_ACCOUNTS, { metadata: account }, { signal });
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
  return requestToken(hub.client, { ...account, seconds }, signal);
}
