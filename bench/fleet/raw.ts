/** The limit of all that goes through API servers: slices written to one, and watched, by one client. */

import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { startApi } from "./programs.ts";

const AT_A_TIME = 16;
const NAMESPACE = "raw";

/** @returns slices a second. */
export async function measureRawWrites(count: number): Promise<number> {
  await using api = await startApi("raw");
  const deps = systemDeps(silentLogger);
  await using client = connect(await loadKubeconfig(api.kubeconfig), deps);
  const signal = AbortSignal.timeout(120_000);
  await client.create(NAMESPACES, { metadata: { name: NAMESPACE } }, { signal });
  await using informer = createInformer(client, ENDPOINT_SLICES, { namespace: NAMESPACE }, deps);
  informer.start(signal);
  await informer.synced(signal);
  const startedMs = systemClock.monotonic();
  const seen = new Promise<void>((resolve) => {
    informer.subscribe(() => {
      if (informer.store.size === count) resolve();
    });
  });
  const numbers = Array.from({ length: count }, (_, at) => at).values();
  const work = async (): Promise<void> => {
    for (const at of numbers) await client.create(ENDPOINT_SLICES, sliceOf(at), { signal });
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  await seen;
  return count / ((systemClock.monotonic() - startedMs) / 1000);
}

function sliceOf(at: number): EndpointSlice {
  return {
    metadata: { namespace: NAMESPACE, name: `slice-${at}` },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: Array.from({ length: 5 }, (_, endpoint) => ({
      addresses: [`10.${(at >> 8) & 255}.${at & 255}.${endpoint + 1}`],
      conditions: { ready: true },
    })),
  };
}
