import { CUSTOM_RESOURCE_DEFINITIONS, type CustomResourceDefinition } from "#api/apiextensions/v1/types.ts";
import { FleetError } from "#base/errors.ts";
import { createInformer } from "./informer.ts";
import { isConditionTrue } from "./conditions.ts";
import { applyIfChanged } from "./apply.ts";
import type { RuntimeDeps } from "./deps.ts";
import type { KubeClient } from "./types.ts";

export interface InstallCrdsOptions {
  readonly crds: readonly CustomResourceDefinition[];
  readonly fieldManager: string;
  /** How long the server may take until it serves them. Unit: milliseconds. Default: 30 000. */
  readonly timeoutMs?: number;
}

/**
 * Applies CustomResourceDefinitions and resolves once the server serves them all (condition `Established`). One that is
 * there already as wanted is not written.
 *
 * @throws {FleetError} `TIMED_OUT` naming those that are not served in time.
 */
export async function installCrds(
  client: KubeClient,
  options: InstallCrdsOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { crds, fieldManager, timeoutMs = 30_000 } = options;
  const stop = new AbortController();
  const running = AbortSignal.any([signal, stop.signal]);
  await using informer = createInformer(
    client,
    CUSTOM_RESOURCE_DEFINITIONS,
    { fieldManager, trim: withoutSchemasOf(new Set(crds.map((it) => it.metadata.name))) },
    deps,
  );
  informer.start(running);
  await informer.synced(running);
  const pending = new Set(crds.map((it) => it.metadata.name));
  const served = Promise.withResolvers<void>();
  const look = (crd: CustomResourceDefinition | undefined): void => {
    if (crd !== undefined && isConditionTrue(crd.status?.conditions, "Established"))
      pending.delete(crd.metadata.name);
    if (pending.size === 0) served.resolve();
  };
  using _watching = informer.subscribe((change) => look(change.after));
  for (const desired of crds) {
    const current = [...informer.store.list()].find((it) => it.metadata.name === desired.metadata.name);
    const after = await applyIfChanged(client, CUSTOM_RESOURCE_DEFINITIONS, {
      current,
      desired,
      fieldManager,
      signal,
    });
    look(after);
  }
  using _timer = deps.clock.after(timeoutMs, () =>
    served.reject(
      new FleetError(
        "TIMED_OUT",
        `the API server does not serve ${[...pending].join(", ")} after ${timeoutMs} ms`,
      ),
    ),
  );
  const onAbort = (): void => served.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await served.promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    stop.abort();
  }
}

/** Other people's schemas are large and of no interest. */
function withoutSchemasOf(
  ours: ReadonlySet<string>,
): (crd: CustomResourceDefinition) => CustomResourceDefinition {
  return (crd) => (ours.has(crd.metadata.name) ? crd : { ...crd, spec: { ...crd.spec, versions: [] } });
}
