/** What can happen to the tunnels of a parallel network while all programs of its clusters run. */

import { exec } from "@fairlead/base/exec.ts";
import { CLUSTER_MESH_PROFILES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { die, revive } from "./fault-tools.ts";
import { PARALLEL_PROFILE } from "./parallel-lab.ts";
import type { TestLab } from "../support/lab-fixture.ts";

export interface PathFault {
  readonly what: string;
  /** Clusters whose flows to and from others may fail. */
  readonly unreachable: readonly string[];
  begin(): Promise<void>;
  end(): Promise<void>;
}

const nothing = (): Promise<void> => Promise.resolve();

export function pathFaults(lab: TestLab, members: readonly string[]): readonly PathFault[] {
  return [
    // Direct paths still work; whether there are any just now depends on what else happens.
    {
      what: "the relay is dead",
      unreachable: members,
      begin: () => die(lab, "hub/relay"),
      end: () => revive(lab, "hub/relay"),
    },
    { what: "keys are exchanged", unreachable: [], begin: () => rotateKeys(lab), end: nothing },
    ...members.flatMap((it): PathFault[] => [
      {
        what: `the NAT of ${it} has forgotten its mappings`,
        unreachable: [it],
        begin: () => forgetMappings(lab, it),
        end: nothing,
      },
      {
        what: `the link of ${it} loses packets`,
        unreachable: [it],
        begin: async () => void (await lab.lab("link", [it, "--loss", "5%"])),
        end: async () => void (await lab.lab("link", [it, "--reset"])),
      },
    ]),
  ];
}

async function rotateKeys(lab: TestLab): Promise<void> {
  const annotations = { "fairlead.dev/rotate-keys": String(systemClock.now()) };
  const key = objectKey(undefined, PARALLEL_PROFILE);
  // The hub may be dead just now.
  await (
    await lab.client("hub")
  )
    .mergePatch(
      CLUSTER_MESH_PROFILES,
      key,
      { metadata: { annotations } },
      { signal: AbortSignal.timeout(3000) },
    )
    .catch(() => {});
}

/** Those of UDP: the test's own connections to the cluster go through the router, too. */
async function forgetMappings(lab: TestLab, cluster: string): Promise<void> {
  const netns = lab.layout.netnsOf(siteNetns(lab.cluster(cluster)));
  const { command, args } = inNetns(netns, "conntrack", ["--delete", "--proto", "udp"]);
  // There may be none just now.
  await exec(command, args, { allowFailure: true });
}
