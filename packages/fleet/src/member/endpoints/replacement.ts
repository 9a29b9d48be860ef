import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import {
  globalServiceOfSlice,
  importOf,
  multiClusterServiceOf,
  serviceOfImportedSlice,
} from "../informers.ts";
import type { Session } from "../session.ts";

export interface Withdrawal {
  /** Name of the slices that change. */
  readonly key: ObjectKey;
  /** Of their source; undefined where that is gone. */
  readonly service: ObjectKey | undefined;
  readonly wanted: readonly Applied<EndpointSlice>[];
  /** What the slices of a service become that have ready endpoints, as far as it is asked for. */
  readonly coming: (service: ObjectKey) => Iterable<Applied<EndpointSlice>>;
}

/**
 * Before ready endpoints are withdrawn from a service because other clusters' come first, one slice of these is there:
 * proxies see one after the other, and must not see a service without an endpoint in between.
 */
export async function putReplacements(
  session: Session,
  { key, service: known, wanted, coming }: Withdrawal,
  signal: AbortSignal,
): Promise<void> {
  for (const leaving of session.here.slices.store.byIndex("imported", key)) {
    const kept = wanted.find((it) => keyOf(it) === keyOf(leaving));
    const service =
      serviceOfImportedSlice(leaving)[0] ??
      globalServiceOfSlice(leaving)[0] ??
      known ??
      serviceBehind(session, leaving);
    if (service === undefined || !isReady(leaving) || !losesPorts(leaving, kept)) continue;
    const missing = findReplacement(session, leaving, coming(service));
    if (missing !== undefined)
      await applyIfChanged(session.local, ENDPOINT_SLICES, {
        current: currentOf(session, missing),
        desired: missing,
        fieldManager: MEMBER_MANAGER,
        signal,
      });
  }
}

/** The service that a load balancer's slice is of: what it imports says so, where the source of the slice is gone. */
function serviceBehind({ here }: Session, { metadata }: EndpointSlice): ObjectKey | undefined {
  const balancer = objectKey(metadata.namespace, metadata.labels?.[SERVICE_NAME_LABEL] ?? "");
  const service = here.services.store.get(balancer);
  const [importer] = service === undefined ? [] : multiClusterServiceOf(service);
  const object = importer === undefined ? undefined : here.multiClusterServices.store.get(importer);
  return object === undefined ? undefined : importOf(object)[0];
}

function losesPorts(leaving: EndpointSlice, kept: Applied<EndpointSlice> | undefined): boolean {
  const left = new Set(kept?.ports?.map((it) => it.name ?? ""));
  return kept === undefined || (leaving.ports ?? []).some((it) => !left.has(it.name ?? ""));
}

/** Returns a replacement that has to be written; undefined if no replacement exists, or one is already written. */
function findReplacement(
  session: Session,
  { metadata, addressType }: EndpointSlice,
  coming: Iterable<Applied<EndpointSlice>>,
): Applied<EndpointSlice> | undefined {
  let missing: Applied<EndpointSlice> | undefined;
  for (const it of coming) {
    const isFit =
      it.metadata.namespace === metadata.namespace &&
      it.metadata.labels?.[MANAGED_BY_LABEL] === metadata.labels?.[MANAGED_BY_LABEL] &&
      it.metadata.name !== metadata.name &&
      it.addressType === addressType &&
      isReady(it);
    if (!isFit) continue;
    const current = currentOf(session, it);
    if (current !== undefined && isReady(current)) return undefined;
    missing ??= it;
  }
  return missing;
}

function currentOf({ here }: Session, { metadata }: Applied<EndpointSlice>): EndpointSlice | undefined {
  return here.slices.store.get(objectKey(metadata.namespace, metadata.name));
}

function isReady({ endpoints = [] }: Pick<Applied<EndpointSlice>, "endpoints">): boolean {
  return endpoints.some((it) => it.conditions?.ready !== false);
}
