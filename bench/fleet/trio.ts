/** The smallest fleet: a hub, an exporter and an importer, each an API server and a manager as programs of their own. */

import { silentLogger } from "#base/log.ts";
import { joinCluster } from "#cli/fleet/join.ts";
import { connect } from "#kube/client.ts";
import type { ClusterConfig } from "#kube/config.ts";
import { systemDeps } from "#kube/deps.ts";
import { loadKubeconfig } from "#kube/kubeconfig.ts";
import type { KubeClient } from "#kube/types.ts";
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
  readonly hub: Cluster;
  readonly exporter: Cluster;
  readonly importer: Cluster;

  private constructor(clusters: Record<Role, Cluster>, stack: AsyncDisposableStack) {
    this.hub = clusters.hub;
    this.exporter = clusters.exporter;
    this.importer = clusters.importer;
    this.#stack = stack;
  }

  /** @param withRealHub - Whether the hub's API server is the one that KUBEBUILDER_ASSETS names. */
  static async start(signal: AbortSignal, withRealHub = false): Promise<Trio> {
    await using stack = new AsyncDisposableStack();
    const cluster = async (role: Role): Promise<Cluster> => {
      const isReal = withRealHub && role === "hub";
      const api = stack.use(isReal ? await startRealApi() : await startApi(role));
      const config = await loadKubeconfig(api.kubeconfig);
      const made = { api, config, client: stack.use(connect(config, deps)), program: await begin(role, api) };
      stack.defer(() => made.program.stop());
      return made;
    };
    const hub = await cluster("hub");
    const exporter = await cluster("exporter");
    const importer = await cluster("importer");
    for (const [name, { config }] of Object.entries({ exporter, importer }))
      await joinCluster({ name, hub: hub.config, member: config }, deps, signal);
    return new Trio({ hub, exporter, importer }, stack.move());
  }

  /** Ends the manager of one and starts it anew. Resolves when it serves. */
  async restart(role: Role): Promise<Program> {
    await this[role].program.stop();
    this[role].program = await begin(role, this[role].api);
    return this[role].program;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

function begin(role: Role, api: ServedApi): Promise<Program> {
  return startProgram([role === "hub" ? "hub" : "member", "--kubeconfig", api.kubeconfig]);
}
