/** A lab for a bench: brought up and taken down by the CLI, as people do it. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { exec } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { labLayout, type LabLayout } from "@fairlead/lab/layout.ts";
import { requireState } from "@fairlead/lab/state.ts";
import type { LabTopology } from "@fairlead/lab/topology.ts";
import { stateRoot } from "@fairlead/fairlead/lab/context.ts";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const deps = systemDeps(silentLogger);

export interface BenchLab extends AsyncDisposable {
  readonly layout: LabLayout;
  readonly topology: LabTopology;
  /** How long `lab up` took. Unit: milliseconds. */
  readonly upMs: number;
  client(cluster: string): Promise<KubeClient>;
  /** Takes it down; disposal does so too. @returns how long it took. Unit: milliseconds. */
  down(): Promise<number>;
}

export async function startBenchLab(
  name: string,
  shape: {
    readonly members: number;
    readonly nodes: number;
    readonly topology?: "flat" | "nat";
    /** The checkout whose programs are run. Default: this one. */
    readonly checkout?: string;
  },
): Promise<BenchLab> {
  const fairlead = (args: readonly string[]): Promise<number> => timed(shape.checkout ?? root, args);
  await fairlead(["lab", "down", "--name", name]);
  const upMs = await fairlead([
    "lab",
    "up",
    "--name",
    name,
    "--members",
    String(shape.members),
    "--nodes",
    String(shape.nodes),
    "--topology",
    shape.topology ?? "flat",
  ]);
  const layout = labLayout(stateRoot(), name);
  const clients: KubeClient[] = [];
  let isDown = false;
  const down = async (): Promise<number> => {
    if (isDown) return 0;
    isDown = true;
    await Promise.all(clients.map((it) => it[Symbol.asyncDispose]()));
    return await fairlead(["lab", "down", "--name", name]);
  };
  return {
    layout,
    // Other checkouts may keep another state.
    get topology() {
      return requireState(layout, name).topology;
    },
    upMs,
    down,
    async client(cluster) {
      const client = connect(await loadKubeconfig(layout.kubeconfig, { context: cluster }), deps);
      clients.push(client);
      return client;
    },
    [Symbol.asyncDispose]: async () => {
      await down();
    },
  };
}

async function timed(checkout: string, args: readonly string[]): Promise<number> {
  const startMs = performance.now();
  await exec(join(checkout, "bin/fairlead"), args, { timeoutMs: 300_000 });
  return performance.now() - startMs;
}

/** The value below which `share` of the samples lie. NaN without samples. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
