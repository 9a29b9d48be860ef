/** The cost of a change of endpoints for a hub and its API server: one write by an exporter, and one by the hub into the view. */

import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type ExportedObjectReference,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { joinMailboxes } from "../fleet/mailboxes.ts";

const deps = systemDeps(silentLogger);
const [EXPORTER, IMPORTER, SLICE] = ["exporter", "importer", "exporter-slice"];
const SLICE_KEY = objectKey(mailboxOf(EXPORTER), SLICE);

export interface Exporter extends AsyncDisposable {
  /** Changes the endpoints, one change after another, each once the hub has written the one before. */
  change(times: number): Promise<void>;
}

/** A service of one slice that another member imports: both are no more than what they have in their mailboxes. */
export async function startExporter(kubeconfig: string, signal: AbortSignal): Promise<Exporter> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(connect(await loadKubeconfig(kubeconfig), deps));
  await joinMailboxes(client, new Map([EXPORTER, IMPORTER].map((it) => [it, {}])), signal);
  await client.create(NAMESPACE_REPORTS, {
    metadata: { namespace: mailboxOf(IMPORTER), name: IMPORTER },
    spec: { namespaces: ["work"], view: VIEW_NAMESPACE },
  });
  await client.create(INTERNAL_SERVICE_EXPORTS, {
    metadata: { namespace: mailboxOf(EXPORTER), name: "work-hello" },
    spec: { ports: [{ port: 80, protocol: "TCP" }], serviceReference: referenceTo("hello") },
  });
  await client.create(ENDPOINT_SLICE_EXPORTS, {
    metadata: { namespace: mailboxOf(EXPORTER), name: SLICE },
    spec: {
      addressType: "IPv4",
      endpoints: endpointsOf(0),
      endpointSliceReference: referenceTo(SLICE),
      ownerServiceReference: referenceTo("hello"),
    },
  });
  const view = stack.use(createInformer(client, ENDPOINT_SLICE_IMPORTS, { namespace: VIEW_NAMESPACE }, deps));
  let awaited: { readonly address: string; readonly resolve: () => void } | undefined;
  view.subscribe(({ after }) => {
    if (after?.spec.endpoints[0]?.addresses[0] === awaited?.address) awaited?.resolve();
  });
  const seen = (address: string): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    awaited = { address, resolve };
    return abortable(promise, signal);
  };
  const first = seen(addressOf(0));
  view.start(signal);
  await first;
  let last = 0;
  const held = stack.move();
  return {
    async change(times) {
      for (let at = 0; at < times; at += 1) {
        last += 1;
        const written = seen(addressOf(last));
        await client.mergePatch(ENDPOINT_SLICE_EXPORTS, SLICE_KEY, {
          spec: { endpoints: endpointsOf(last) },
        });
        await written;
      }
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

function endpointsOf(change: number): { addresses: string[] }[] {
  return [{ addresses: [addressOf(change)] }];
}

function addressOf(change: number): string {
  return `10.20.${change >> 8}.${change & 255}`;
}

function referenceTo(name: string): ExportedObjectReference {
  return {
    clusterId: EXPORTER,
    kind: "Service",
    namespace: "work",
    name,
    namespacedName: `work/${name}`,
    uid: name,
    resourceVersion: "1",
    generation: 1,
  };
}
