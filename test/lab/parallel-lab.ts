/** Waits of tests in a parallel network. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { GATEWAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import type { TestLab } from "../support/lab-fixture.ts";
import { eventually } from "../support/waiting.ts";

/** The name that a lab gives its one. */
export const PARALLEL_PROFILE = "parallel";

/** Until the tunnels from each of these members to each other are answered. At once in a flat network. */
export async function untilConnected(lab: TestLab, members: readonly string[]): Promise<void> {
  if (lab.topology.spec.topology === "flat") return;
  const hub = await lab.client("hub");
  await Promise.all(
    members.map(async (from) => {
      const others = members.filter((it) => it !== from);
      await eventually(
        hub,
        GATEWAYS,
        (gateways) => {
          const paths = gateways.flatMap((it) => it.status?.paths ?? []);
          return others.every((to) => paths.some((it) => it.cluster === to && it.path !== "none"));
        },
        { namespace: mailboxOf(from), timeoutMs: 60_000 },
      );
    }),
  );
}

/** File of the network namespace `fleet` of a node. */
export function fleetNetnsOf({ layout }: Pick<TestLab, "layout">, node: string): string {
  return join(layout.node(node), "node", "fleet");
}

export function commandOf(pid: number): string {
  return textOf(pid, "cmdline");
}

/** The processes of all WireGuard devices of a lab. */
export function wireguardProcesses({ layout }: Pick<TestLab, "layout">): readonly number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((it) => commandOf(it).startsWith("wireguard-go\0"))
    .filter((it) => textOf(it, "environ").includes(`FAIRLEAD_LAB=${layout.root}\0`));
}

/** Those of the devices in one namespace. */
export async function wireguardProcessesOf(lab: TestLab, netns: string): Promise<readonly number[]> {
  const inside = new Set((await pidsByNetns([netns])).get(netns));
  return wireguardProcesses(lab).filter((it) => inside.has(it));
}

/** Empty if there is no such process any more. */
function textOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
