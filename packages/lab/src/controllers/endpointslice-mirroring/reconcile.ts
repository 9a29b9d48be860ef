import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { planSlices } from "../endpointslice/plan.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { isMirrored, mirroredGroups, mirrorTarget, MIRRORED_BY } from "./plan.ts";

type Needs = Pick<LabInformers, "endpoints" | "services" | "slices">;

/** Keeps EndpointSlices equal to the Endpoints that users write. */
export function endpointSliceMirroringController(
  client: KubeClient,
  informers: Needs,
  deps: RuntimeDeps,
): Controller {
  return createController(
    {
      name: "endpointslice-mirroring",
      reconcile: untilEnding((key, signal) => reconcile(client, informers, { key, signal })),
      sources: [
        watching(informers.endpoints),
        watching(informers.services),
        watching(informers.slices, ({ before, after }) =>
          [before, after].flatMap((slice) =>
            slice !== undefined && isMirror(slice) ? serviceOf(slice) : [],
          ),
        ),
      ],
    },
    deps,
  );
}

async function reconcile(
  client: KubeClient,
  { endpoints, services, slices }: Needs,
  { key, signal }: { readonly key: ObjectKey; readonly signal: AbortSignal },
): Promise<void> {
  const object = endpoints.store.get(key);
  const existing = [...slices.store.byIndex("service", key)].filter(
    (slice) => isMirror(slice) && !isDeleting(slice),
  );
  const isWanted = object !== undefined && !isDeleting(object) && isMirrored(object, services.store.get(key));
  const plan = isWanted
    ? planSlices(mirrorTarget(object), mirroredGroups(object), existing)
    : { create: [], update: [], delete: existing };
  for (const slice of plan.create) await client.create(ENDPOINT_SLICES, slice, { signal });
  for (const slice of plan.update) await client.update(ENDPOINT_SLICES, slice, { signal });
  for (const slice of plan.delete)
    await client.delete(ENDPOINT_SLICES, keyOf(slice), { uid: slice.metadata.uid ?? "", signal });
}

function isMirror(slice: EndpointSlice): boolean {
  return slice.metadata.labels?.[MANAGED_BY_LABEL] === MIRRORED_BY;
}

function serviceOf(slice: EndpointSlice): ObjectKey[] {
  const name = slice.metadata.labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? [] : [objectKey(slice.metadata.namespace, name)];
}
