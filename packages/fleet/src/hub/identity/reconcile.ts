import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { defined } from "@fairlead/base/defined.ts";
import {
  CERTIFICATE_SIGNING_REQUESTS,
  type CertificateSigningRequest,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICE_ACCOUNTS, type ServiceAccount } from "@fairlead/kube/api/core/v1/types.ts";
import {
  bootstrapAccount,
  BOOTSTRAP_SECONDS,
  HUB_REFUSED,
  USED_BY_ANNOTATION,
} from "#api/fairlead.dev/identity.ts";
import { keyOf, type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { type IdentityInformers, usedBy } from "./informers.ts";
import {
  accountEndsMs,
  isDecided,
  type Known,
  memberAskedFor,
  planVerdict,
  requestEndsMs,
  type Verdict,
} from "./plan.ts";

/** How long a member may take to fetch its certificate with the token that it asked with. Unit: milliseconds. */
const FETCH_MS = 60_000;
/** As kube-controller-manager keeps finished requests. Unit: milliseconds. */
const KEPT_MS = 3_600_000;
/** Longer than any token of a bootstrap account lives. Unit: milliseconds. */
const ACCOUNT_LIFE_MS = 2 * BOOTSTRAP_SECONDS * 1000;

interface Parts {
  readonly client: KubeClient;
  readonly informers: IdentityInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

/**
 * Approves or denies the certificate requests of members, and deletes join ServiceAccounts that are used or old, and
 * finished requests. Keys are those of the requests, and of the join ServiceAccounts.
 */
export function createIdentity(parts: Parts): Controller {
  const { informers, deps } = parts;
  const identity = new Identity(parts);
  return createController(
    {
      name: "hub-identity",
      // One after another: a token is good for one request, and the second is judged by what the first left.
      concurrency: 1,
      reconcile: (key, signal) =>
        splitKey(key).namespace === undefined ? identity.judge(key, signal) : identity.tidy(key, signal),
      sources: [
        watching(informers.signingRequests, ({ key, after }) => [
          key,
          ...(after === undefined ? [] : identity.accountsUsedBy(after)),
        ]),
        watching(informers.bootstrapAccounts),
      ],
    },
    deps,
  );
}

class Identity {
  readonly #parts: Parts;
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  accountsUsedBy({ metadata }: CertificateSigningRequest): readonly ObjectKey[] {
    const { store } = this.#parts.informers.bootstrapAccounts;
    return [...store.byIndex("usedBy", metadata.uid ?? "")].map(keyOf);
  }

  async judge(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, informers, deps } = this.#parts;
    const asked = informers.signingRequests.store.get(key);
    if (asked === undefined) return;
    if (isDecided(asked)) return this.#clear(asked, signal);
    // A decision cannot be reverted: read from the server, because a watch may lag.
    const verdict = planVerdict(asked, await this.#known(asked, signal));
    if (verdict.kind === "ignore") return;
    if (verdict.kind === "approve" && verdict.account !== undefined)
      await claim(client, verdict.account, asked, signal);
    try {
      await decide(client, asked, verdict, signal);
    } catch (error) {
      if (hasCode(error, "API_FORBIDDEN")) this.#reportRefusal(asked, messageOf(error));
      throw error;
    }
    const fields = { request: asked.metadata.name, by: asked.spec.username, why: verdict.message };
    if (verdict.kind === "approve") deps.log.info("approved a member's certificate", fields);
    else deps.log.warn("denied a certificate", { ...fields, reason: verdict.reason });
  }

  /** Records an Event, because the requester cannot read the log of this program. */
  #reportRefusal(asked: CertificateSigningRequest, why: string): void {
    this.#parts.events.record(CERTIFICATE_SIGNING_REQUESTS, asked, {
      type: "Warning",
      reason: HUB_REFUSED,
      message: `the API server refuses the hub's answer to this request: ${why}`,
    });
  }

  /** Deletes a finished request after a time in which people can read it. */
  async #clear(asked: CertificateSigningRequest, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, deps } = this.#parts;
    const endsMs = requestEndsMs(asked, KEPT_MS);
    if (endsMs === undefined) return;
    const leftMs = endsMs - clockOfServer(client, deps.clock).now();
    if (leftMs > 0) return { requeueAfterMs: leftMs };
    const { uid } = asked.metadata;
    await client.delete(CERTIFICATE_SIGNING_REQUESTS, keyOf(asked), {
      signal,
      ...defined({ uid }),
    });
    deps.log.debug("deleted a finished request", { request: asked.metadata.name });
  }

  async #known(asked: CertificateSigningRequest, signal: AbortSignal): Promise<Known> {
    const { client } = this.#parts;
    const cluster = memberAskedFor(asked);
    if (cluster === undefined) return { member: undefined, account: undefined };
    return {
      member: await client.find(MEMBER_CLUSTERS, objectKey(undefined, cluster), { signal }),
      account: await client.find(
        SERVICE_ACCOUNTS,
        objectKey(FLEET_SYSTEM_NAMESPACE, bootstrapAccount(cluster)),
        { signal },
      ),
    };
  }

  async tidy(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, informers, deps } = this.#parts;
    const account = informers.bootstrapAccounts.store.get(key);
    if (account === undefined || isDeleting(account)) return;
    const limits = { fetchMs: FETCH_MS, lifeMs: ACCOUNT_LIFE_MS };
    const nowMs = clockOfServer(client, deps.clock).now();
    const leftMs = accountEndsMs(account, this.#issuedAtMs(account), limits) - nowMs;
    if (leftMs > 0) return { requeueAfterMs: leftMs };
    const { uid } = account.metadata;
    await client.delete(SERVICE_ACCOUNTS, key, { signal, ...defined({ uid }) });
    deps.log.info("deleted the join ServiceAccount of a member", { account: account.metadata.name });
  }

  #issuedAtMs(account: ServiceAccount): number | undefined {
    const uid = usedBy(account);
    if (uid === undefined) return undefined;
    const [request] = this.#parts.informers.signingRequests.store.byIndex("uid", uid);
    if (request?.status?.certificate === undefined) return undefined;
    const approved = request.status.conditions?.find((it) => it.type === "Approved");
    const atMs = Date.parse(approved?.lastUpdateTime ?? "");
    return Number.isNaN(atMs) ? 0 : atMs;
  }
}

/** Before the approval, so that whatever happens in between the token is good for this request alone. */
async function claim(
  client: KubeClient,
  account: ServiceAccount,
  asked: CertificateSigningRequest,
  signal: AbortSignal,
): Promise<void> {
  if (usedBy(account) !== undefined) return;
  const { uid, resourceVersion } = account.metadata;
  const annotations = { [USED_BY_ANNOTATION]: asked.metadata.uid };
  await client.mergePatch(
    SERVICE_ACCOUNTS,
    keyOf(account),
    { metadata: { annotations, uid, resourceVersion } },
    { signal },
  );
}

async function decide(
  client: KubeClient,
  asked: CertificateSigningRequest,
  verdict: Exclude<Verdict, { kind: "ignore" }>,
  signal: AbortSignal,
): Promise<void> {
  const [type, reason] =
    verdict.kind === "approve"
      ? (["Approved", "FleetMember"] as const)
      : (["Denied", verdict.reason] as const);
  const condition = { type, status: "True" as const, reason, message: verdict.message };
  const conditions = [...(asked.status?.conditions ?? []), condition];
  // Deleted, or decided by another client: the watch reports it.
  await client
    .update(
      CERTIFICATE_SIGNING_REQUESTS,
      { ...asked, status: { ...asked.status, conditions } },
      { subresource: "approval", signal },
    )
    .catch(ignoreNotFound);
}
