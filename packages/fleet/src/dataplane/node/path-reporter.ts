import { NODE_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { type Gateway, GATEWAYS, type MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { createPathMeters, type PathMeters } from "./path-meters.ts";
import { measurePaths, planReport, type Tunnel } from "./path-report.ts";

export interface Reported {
  /** Undefined on a node that is not a gateway. */
  readonly gateway: Gateway | undefined;
  readonly relays: readonly MeshRelay[];
  readonly tunnels: readonly Tunnel[];
}

export interface PathReporterOptions {
  readonly client: KubeClient;
  readonly deps: RuntimeDeps;
  readonly read: (signal: AbortSignal) => Promise<Reported>;
}

/** How often tunnels are looked at, which also is the shortest time between two reports. Unit: milliseconds. */
const LOOK_MS = 5000;

/** Shows the state of the tunnels: in metrics, and of what people want to know a report in the status of the Gateway. */
export class PathReporter implements Component {
  readonly #options: PathReporterOptions;
  readonly #meters: PathMeters;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: PathReporterOptions) {
    this.#options = options;
    this.#meters = createPathMeters(options.deps.metrics);
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#running = this.#run(AbortSignal.any([signal, this.#stop.signal]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options.deps;
    for (;;) {
      await delay(clock, LOOK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      try {
        await this.#look(signal);
      } catch (error) {
        if (!signal.aborted) log.warn("cannot report the tunnels", { error: messageOf(error) });
      }
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { client, deps, read } = this.#options;
    const { gateway, relays, tunnels } = await read(signal);
    const nowMs = deps.clock.now();
    const measured = measurePaths(tunnels, relays, nowMs);
    this.#meters.show(measured);
    if (gateway === undefined) return;
    const status = planReport(measured, gateway.status, nowMs);
    if (status === undefined) return;
    const { namespace = "", name } = gateway.metadata;
    await applyIfChanged(client, GATEWAYS, {
      current: gateway,
      desired: { metadata: { namespace, name }, status },
      fieldManager: NODE_MANAGER,
      subresource: "status",
      signal,
    });
  }
}
