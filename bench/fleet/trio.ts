/** The smallest fleet: a hub, an exporter and an importer, each with an API server and a manager as separate programs. */

import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  type EndpointSlice,
  ENDPOINT_SLICES,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { type Program, type ServedApi, startApi, startProgram, startRealApi } from "./programs.ts";

export type Role = "hub" | "exporter" | "importer";

interface Cluster {
  readonly api: ServedApi;
  readonly config: ClusterConfig;
  readonly client: KubeClient;
  program: Program;
}

const deps = systemDeps(silentLogger);

export class Trio implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly #checkout: string | undefined;
  readonly hub: Cluster;
  readonly exporter: Cluster;
  readonly importer: Cluster;

  private constructor(
    clusters: Record<Role, Cluster>,
    stack: AsyncDisposableStack,
    checkout: string | undefined,
  ) {
    this.#checkout = checkout;
    this.hub = clusters.hub;
    this.exporter = clusters.exporter;
    this.importer = clusters.importer;
    this.#stack = stack;
  }

  /**
   * @param withRealHub - Whether the hub's API server is the one that KUBEBUILDER_ASSETS names.
   * @param checkout - Where the managers' programs come from. Default: this checkout.
   */
  static async start(signal: AbortSignal, withRealHub = false, checkout?: string): Promise<Trio> {
    await using stack = new AsyncDisposableStack();
    const cluster = async (role: Role): Promise<Cluster> => {
      const isReal = withRealHub && role === "hub";
      const api = stack.use(isReal ? await startRealApi() : await startApi(role));
      const config = await loadKubeconfig(api.kubeconfig);
      const made = {
        api,
        config,
        client: stack.use(connect(config, deps)),
        program: await begin(role, api, checkout),
      };
      stack.defer(() => made.program.stop());
      return made;
    };
    const hub = await cluster("hub");
    const exporter = await cluster("exporter");
    const importer = await cluster("importer");
    for (const [name, { config }] of Object.entries({ exporter, importer }))
      await joinCluster({ name, hub: hub.config, member: config }, deps, signal);
    return new Trio({ hub, exporter, importer }, stack.move(), checkout);
  }

  get clients(): FleetClients {
    return { hub: this.hub.client, exporter: this.exporter.client, importer: this.importer.client };
  }

  /** Restarts the manager of one role. Resolves when it serves. */
  async restart(role: Role): Promise<Program> {
    await this[role].program.stop();
    this[role].program = await begin(role, this[role].api, this.#checkout);
    return this[role].program;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

function begin(role: Role, api: ServedApi, checkout: string | undefined): Promise<Program> {
  return startProgram([role === "hub" ? "hub" : "member", "--kubeconfig", api.kubeconfig], { checkout });
}

/** Where the exporter's services are, and the importer's of them. */
export const NAMESPACE = "bench";

/** Clients of the three clusters, for the one who manages them. */
export interface FleetClients {
  readonly hub: KubeClient;
  readonly exporter: KubeClient;
  readonly importer: KubeClient;
}

/** The three clusters of a trio whose importer imports from the exporter. */
export interface World extends FleetClients {
  /** What the importer has of the exporter's slices. Ends with the stack that it was started for. */
  readonly imported: Informer<EndpointSlice>;
  readonly signal: AbortSignal;
}

/** With the namespace in both members. */
export async function startWorld(
  { hub, exporter, importer }: FleetClients,
  stack: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<World> {
  for (const client of [exporter, importer])
    await client.create(NAMESPACES, { metadata: { name: NAMESPACE } }, { signal });
  const options = { labelSelector: `${MCS_SOURCE_CLUSTER_LABEL}=exporter` };
  const imported = stack.use(createInformer(importer, ENDPOINT_SLICES, options, deps));
  imported.start(signal);
  await imported.synced(signal);
  return { hub, exporter, importer, imported, signal };
}

/** Exports a Service without a selector: its slices are ours to change. */
export async function exportService({ exporter, signal }: World, name: string): Promise<void> {
  const metadata = { namespace: NAMESPACE, name };
  await exporter.create(SERVICES, { metadata, spec: { ports: [{ name: "http", port: 80 }] } }, { signal });
  await exporter.create(MCS_SERVICE_EXPORTS, { metadata }, { signal });
}

/** A slice of such a Service. */
export function sliceOf(
  { name, service }: { readonly name: string; readonly service: string },
  endpoints: EndpointSlice["endpoints"],
): EndpointSlice {
  return {
    metadata: { namespace: NAMESPACE, name, labels: { [SERVICE_NAME_LABEL]: service } },
    addressType: "IPv4",
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
    endpoints,
  };
}

/** Resolves once the importer has so many slices. */
export function untilImported({ imported }: World, count: number): Promise<void> {
  return new Promise((resolve) => {
    const subscription = imported.subscribe(() => look());
    const look = (): void => {
      if (imported.store.size < count) return;
      subscription[Symbol.dispose]();
      resolve();
    };
    look();
  });
}
