import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@fairlead/kube/api/core/v1/volumes.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { VOLUME_ATTRIBUTES_CLASSES } from "@fairlead/kube/api/storage/v1/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, Informer, KubeClient, Source } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { claimsOf, classesOfClaim, classesOfVolume, isBound, usesClaim } from "./plan.ts";

type Needs = Pick<LabInformers, "pods" | "claims" | "volumes" | "attributesClasses">;

interface Protection<T extends KubeObject> {
  readonly name: string;
  readonly of: Resource<T>;
  readonly informer: Informer<T>;
  readonly finalizer: string;
  /** Changes of what uses the objects. */
  readonly users: readonly Source[];
  readonly isUsed: (object: T, signal: AbortSignal) => boolean | Promise<boolean>;
}

/** Claims, volumes and their classes stay while they are used: their finalizer is removed once they are unused. */
export function storageProtectionControllers(
  client: KubeClient,
  { pods, claims, volumes, attributesClasses }: Needs,
  deps: RuntimeDeps,
): readonly Controller[] {
  return [
    protection(client, deps, {
      name: "pvc-protection",
      of: PERSISTENT_VOLUME_CLAIMS,
      informer: claims,
      finalizer: "kubernetes.io/pvc-protection",
      users: [watching(pods, namedBy(claimsOf))],
      async isUsed(claim, signal) {
        const key = keyOf(claim);
        if ([...pods.store.byIndex("claim", key)].some((pod) => usesClaim(pod, key))) return true;
        // A pod that uses it may not be in the cache yet, so the server is asked.
        const { namespace = "" } = claim.metadata;
        const { items } = await client.list(PODS, { namespace, signal });
        return items.some((pod) => usesClaim(pod, key));
      },
    }),
    protection(client, deps, {
      name: "pv-protection",
      of: PERSISTENT_VOLUMES,
      informer: volumes,
      finalizer: "kubernetes.io/pv-protection",
      users: [],
      isUsed: isBound,
    }),
    protection(client, deps, {
      name: "volumeattributesclass-protection",
      of: VOLUME_ATTRIBUTES_CLASSES,
      informer: attributesClasses,
      finalizer: "kubernetes.io/vac-protection",
      users: [
        watching(
          claims,
          namedBy((it) => classesOfClaim(it).map(clusterKey)),
        ),
        watching(
          volumes,
          namedBy((it) => classesOfVolume(it).map(clusterKey)),
        ),
      ],
      isUsed: ({ metadata: { name } }) =>
        [claims, volumes].some((it) => [...it.store.byIndex("class", name)].length > 0),
    }),
  ];
}

function protection<T extends KubeObject>(
  client: KubeClient,
  deps: RuntimeDeps,
  { name, of, informer, finalizer, users, isUsed }: Protection<T>,
): Controller {
  return createController(
    {
      name,
      sources: [watching(informer), ...users],
      reconcile: untilEnding(async (key, signal) => {
        const object = informer.store.get(key);
        if (object === undefined) return undefined;
        if (!isDeleting(object)) await addFinalizer(client, of, object, { finalizer, signal });
        else if (object.metadata.finalizers?.includes(finalizer) === true && !(await isUsed(object, signal)))
          await removeFinalizer(client, of, object, { finalizer, signal });
        return undefined;
      }),
    },
    deps,
  );
}

/** What an object names, and what it named before. */
function namedBy<T extends KubeObject>(
  named: (object: T) => readonly ObjectKey[],
): (change: Change<T>) => readonly ObjectKey[] {
  return ({ before, after }) => [before, after].flatMap((it) => (it === undefined ? [] : named(it)));
}

function clusterKey(name: string): ObjectKey {
  return objectKey(undefined, name);
}
