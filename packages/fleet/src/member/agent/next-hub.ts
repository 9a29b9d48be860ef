import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { NEXT_HUB, NEXT_HUB_ANNOTATION, NEXT_HUB_FAILED } from "#api/fairlead.dev/hub-move.ts";
import { HUB_KEYS, type HubAccess, type Proof, readHubSecret } from "#api/fairlead.dev/hub-secret.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { delay } from "@fairlead/base/clock.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { ensureKey, requestCertificate } from "./certificate.ts";
import { AccessHolder, hubConfig } from "./holder.ts";
import type { RenewalParts } from "./renewal.ts";
import { changeHubSecret } from "./store.ts";

/** A member follows its fleet to another hub: the present hub has its address, and nothing else in the member changes. */

export interface NextHubParts extends RenewalParts {
  readonly internalMembers: Informer<InternalMemberCluster>;
  readonly connectHub: (config: ClusterConfig) => KubeClient;
}

/** Between two attempts, doubled each time; another value of the annotation ends the pause. Unit: milliseconds. */
const RETRY_MS = { min: 1000, max: 60_000 };

/**
 * Waits until the hub announces that the fleet has moved, and then switches: gets credentials from the next hub, verifies with them that
 * this member is expected there, and only then changes the Secret that names the hub, in one write. Until then the member stays with
 * the present hub. The change of the Secret ends the session, and with it `signal`.
 */
export async function followNextHub(parts: NextHubParts, signal: AbortSignal): Promise<void> {
  const { internalMembers, holder } = parts;
  const { cluster } = holder.access;
  const key = objectKey(mailboxOf(cluster), cluster);
  const announced = (): string =>
    internalMembers.store.get(key)?.metadata.annotations?.[NEXT_HUB_ANNOTATION] ?? "";
  while (!signal.aborted) {
    const seen = announced();
    const changed = new AbortController();
    using _watch = internalMembers.subscribe(() => {
      if (announced() !== seen) changed.abort();
    });
    const either = AbortSignal.any([signal, changed.signal]);
    if (seen !== "") await keepTrying(parts, either);
    await untilAborted(either);
  }
}

async function keepTrying(parts: NextHubParts, signal: AbortSignal): Promise<void> {
  const { hub, internalMembers, holder, deps } = parts;
  const { cluster } = holder.access;
  const events = createEventRecorder(hub, MEMBER_MANAGER, deps);
  for (let waitMs = RETRY_MS.min; !signal.aborted; waitMs = Math.min(RETRY_MS.max, waitMs * 2)) {
    try {
      await switchOver(parts, signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      const why = messageOf(error);
      deps.log.warn("cannot switch to the hub that the fleet has moved to, retrying", { error: why });
      const member = internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
      const event = { type: "Warning", reason: NEXT_HUB_FAILED, message: why } as const;
      if (member !== undefined) events.record(INTERNAL_MEMBER_CLUSTERS, member, event);
      await delay(deps.clock, waitMs, signal).catch(() => {});
    }
  }
}

async function switchOver(parts: NextHubParts, signal: AbortSignal): Promise<void> {
  const { local, holder, deps } = parts;
  const next = await readNextAccess(parts, signal);
  if (next.server === holder.access.server && next.ca === holder.access.ca) return;
  const proof = await proveTo(parts, next, signal);
  await verifyExpected(parts, { ...next, proof }, signal);
  await changeHubSecret(
    local,
    // Another `fairlead join` may have changed it in the meantime.
    (field) => (field(HUB_KEYS.server) === holder.access.server ? fieldsOf(next, proof) : undefined),
    signal,
  );
  deps.log.info("switched to the hub that the fleet has moved to", { next: next.server });
}

async function readNextAccess({ hub, holder }: NextHubParts, signal: AbortSignal): Promise<HubAccess> {
  const { cluster } = holder.access;
  const secret = await hub.get(SECRETS, objectKey(mailboxOf(cluster), NEXT_HUB), { signal });
  const read = readHubSecret(secret);
  const problem = read.kind === "problem" ? read.problem : undefined;
  if (read.kind === "access" && read.access.cluster === cluster) return read.access;
  throw new FleetError(
    "API_INVALID",
    `Secret ${NEXT_HUB} in the mailbox: ${problem ?? "cluster is not this member"}`,
  );
}

/** The key outlives this process: the token is good for one request. */
async function proveTo(parts: NextHubParts, next: HubAccess, signal: AbortSignal): Promise<Proof> {
  const { local, connectHub, deps } = parts;
  const { cluster, proof } = next;
  if (proof.kind !== "bootstrap") return proof;
  const { user } = proof;
  const key = await ensureKey(local, HUB_KEYS.nextHubKey, signal);
  await using hub = connectHub(hubConfig(next, new AccessHolder(next)));
  try {
    const cert = await requestCertificate({ hub, cluster, user, deps }, key, signal);
    return { kind: "certificate", user, pair: { cert, key } };
  } catch (error) {
    // A request that was denied stays denied: the next attempt needs another key.
    if (hasCode(error, "API_FORBIDDEN") && !signal.aborted)
      await changeHubSecret(local, () => ({ [HUB_KEYS.nextHubKey]: undefined }), signal);
    throw error;
  }
}

async function verifyExpected(
  { connectHub }: NextHubParts,
  next: HubAccess,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, server } = next;
  await using hub = connectHub(hubConfig(next, new AccessHolder(next)));
  const key = objectKey(mailboxOf(cluster), cluster);
  const { spec } = await hub.get(INTERNAL_MEMBER_CLUSTERS, key, { signal });
  if (spec.state === "Join") return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `InternalMemberCluster ${key} at ${server} is not in state Join`,
  );
}

function fieldsOf(next: HubAccess, proof: Proof): Record<string, string | undefined> {
  const pair = proof.kind === "certificate" ? proof.pair : undefined;
  return {
    [HUB_KEYS.server]: next.server,
    [HUB_KEYS.ca]: next.ca ?? "",
    [HUB_KEYS.followCa]: String(next.followCa),
    [HUB_KEYS.user]: proof.kind === "token" ? undefined : proof.user,
    [HUB_KEYS.certificate]: pair?.cert,
    [HUB_KEYS.key]: pair?.key,
    [HUB_KEYS.token]: proof.kind === "token" ? proof.token : undefined,
    [HUB_KEYS.nextKey]: undefined,
    [HUB_KEYS.nextHubKey]: undefined,
    [HUB_KEYS.bootstrapToken]: undefined,
  };
}
