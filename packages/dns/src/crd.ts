import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/**
 * Waits until the API server serves a custom resource, so that one which is installed later is listed at once, and not after a
 * back-off of half a minute. Does not wait if CRDs cannot be read; the informer then retries by itself.
 */
export async function untilServed(
  client: KubeClient,
  of: Resource,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const key = objectKey(undefined, `${of.plural}.${of.group}`);
  try {
    const found = await client.find(CUSTOM_RESOURCE_DEFINITIONS, key, { signal });
    if (found !== undefined && isServed(found)) return;
  } catch (error) {
    if (hasCode(error, "ABORTED")) throw error;
    if (!hasCode(error, "API_UNAVAILABLE", "API_TIMEOUT")) {
      deps.log.debug("cannot read a CRD", { crd: key, error: messageOf(error) });
      return;
    }
  }
  deps.log.info("waiting for a CRD to be installed", { crd: key });
  await using informer = createInformer(
    client,
    CUSTOM_RESOURCE_DEFINITIONS,
    { fieldSelector: `metadata.name=${key}` },
    deps,
  );
  const served = Promise.withResolvers<void>();
  using _subscription = informer.subscribe(({ after }) => {
    if (after !== undefined && isServed(after)) served.resolve();
  });
  informer.start(signal);
  await abortable(served.promise, signal);
}

function isServed({ status }: CustomResourceDefinition): boolean {
  return (status?.conditions ?? []).some((it) => it.type === "Established" && it.status === "True");
}
