import { type ClusterMeshProfile, type Gateway, MAX_KEY_EPOCH } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";

/** When the gateways of a network make new keys. Pure. */

/** Annotation of a ClusterMeshProfile: each new value has the gateways make new keys. */
export const ROTATE_KEYS_ANNOTATION = "fairlead.dev/rotate-keys";

/**
 * How long a gateway without the key of the present epoch holds up the next one: gateways keep the keys of two epochs, so
 * that one which misses an epoch is not reached until it is back. Unit: milliseconds.
 */
export const STRAGGLER_MS = 3600 * 1000;

const FIRST_EPOCH = 1;

interface EpochView {
  readonly profile: ClusterMeshProfile;
  /** The epoch that members know; the status of the profile may have been lost. */
  readonly known: number | undefined;
  /** Those that the members of the network see. */
  readonly gateways: readonly Gateway["spec"][];
  readonly nowMs: number;
}

export type Epoch = Required<Pick<NonNullable<ClusterMeshProfile["status"]>, "keyEpoch" | "keyEpochSince">> &
  Pick<NonNullable<ClusterMeshProfile["status"]>, "keyRotationRequest">;

interface EpochPlan {
  readonly epoch: Epoch;
  readonly againInMs: number | undefined;
}

export function planEpoch({ profile, known, gateways, nowMs }: EpochView): EpochPlan {
  const { keyRotationRequest } = profile.status ?? {};
  const keyEpoch = epochOf(profile, known);
  const keyEpochSince = sinceOf(profile, nowMs);
  const request = profile.metadata.annotations?.[ROTATE_KEYS_ANNOTATION];
  const handled = keyRotationRequest === undefined ? {} : { keyRotationRequest };
  const epoch: Epoch = { keyEpoch, keyEpochSince, ...handled };
  const isRequested = request !== undefined && request !== keyRotationRequest;
  const dueMs = dueAtMs(profile, keyEpochSince);
  if (!isRequested && dueMs > nowMs)
    return { epoch, againInMs: dueMs === Infinity ? undefined : dueMs - nowMs };
  const waitMs = Date.parse(keyEpochSince) + STRAGGLER_MS - nowMs;
  const isComplete = gateways.every(
    ({ keys = [] }) => keys.length === 0 || keys.some((it) => it.epoch === keyEpoch),
  );
  // A change of a gateway brings us here again.
  if (!isComplete && waitMs > 0) return { epoch, againInMs: waitMs };
  return {
    epoch: {
      keyEpoch: Math.min(keyEpoch + 1, MAX_KEY_EPOCH),
      keyEpochSince: timestamp(nowMs),
      ...(request === undefined ? handled : { keyRotationRequest: request }),
    },
    againInMs: undefined,
  };
}

function epochOf({ status }: ClusterMeshProfile, known = FIRST_EPOCH): number {
  return Math.min(Math.max(status?.keyEpoch ?? FIRST_EPOCH, known), MAX_KEY_EPOCH);
}

/** A time that cannot be read, or is in the future, is replaced: it could hold up keys for years. */
function sinceOf({ status }: ClusterMeshProfile, nowMs: number): string {
  const since = status?.keyEpochSince ?? "";
  const isUsable = !Number.isNaN(Date.parse(since)) && Date.parse(since) <= nowMs;
  return isUsable ? since : timestamp(nowMs);
}

function dueAtMs({ spec }: ClusterMeshProfile, since: string): number {
  const hours = spec.keyRotationHours;
  return hours === undefined ? Infinity : Date.parse(since) + hours * 3_600_000;
}
