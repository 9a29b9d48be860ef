import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  RESOURCE_INDEX_LABEL,
  SUBINDEX_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { findSnapshot } from "../contents.ts";
import { OF_PLACEMENT, type ScopeInformers } from "../informers.ts";

/** The first part of the latest resource snapshot of a placement; undefined while none is the latest, or it is not complete. */
export function latestSnapshot(scope: ScopeInformers, placement: ObjectKey): ResourceSnapshot | undefined {
  const latest = [...scope.resourceSnapshots.store.byIndex(OF_PLACEMENT, placement)]
    .filter(({ metadata: { labels, annotations } }) => {
      return labels?.[LATEST_SNAPSHOT_LABEL] === "true" && annotations?.[SUBINDEX_ANNOTATION] === undefined;
    })
    .toSorted((a, b) => indexOf(b) - indexOf(a))[0];
  if (latest === undefined) return undefined;
  const { namespace, name } = latest.metadata;
  return findSnapshot(scope, namespace, name) === undefined ? undefined : latest;
}

function indexOf({ metadata: { labels } }: ResourceSnapshot): number {
  return Number(labels?.[RESOURCE_INDEX_LABEL] ?? "-1");
}
