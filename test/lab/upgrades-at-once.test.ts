/** Two clusters of a lab that are upgraded at once: each adds and removes links of the network that both are in. */

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { UPDATE_RUNS, UPGRADER_ANNOTATION } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { planPrograms } from "@fairlead/lab/programs.ts";
import { found, startLab, type TestLab } from "../support/lab-fixture.ts";
import { startOne } from "../support/lab-programs.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { until } from "../support/waiting.ts";
import { die } from "./fault-tools.ts";

const MEMBERS = ["member-1", "member-2"];
const UPGRADER = "machine/lab-upgrader";
/** What it says of links is old when it is used. */
const SLOW_IP = `#!/bin/sh
PATH=$(echo "$PATH" | cut -d : -f 2-)
ip "$@" || exit
case "$*" in *"link show") sleep 0.3 ;; esac
`;

describeOnKernel("two clusters of a lab", () => {
  let lab: TestLab;
  const tools = mkdtempSync("/tmp/fairlead-slow-");
  beforeAll(async () => {
    lab = await startLab({
      name: "eonce",
      members: MEMBERS.length,
      nodes: 1,
      flags: ["--kubernetes-version", "1.35", "--upgrades"],
    });
    writeFileSync(join(tools, "ip"), SLOW_IP);
    chmodSync(join(tools, "ip"), 0o755);
    const { launcher } = lab;
    const env = { ...launcher.env, PATH: `${tools}:${launcher.env["PATH"] ?? ""}` };
    await die(lab, UPGRADER);
    const program = found(planPrograms(lab.topology, lab.layout).find((it) => it.name === UPGRADER));
    await startOne({ ...lab, launcher: { ...launcher, env } }, program);
  });
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]();
    rmSync(tools, { recursive: true });
  });

  it("are upgraded at once, and neither disturbs the network of the other", async () => {
    const hub = await lab.client("hub");
    const annotations = { [UPGRADER_ANNOTATION]: "External" };
    for (const it of MEMBERS)
      await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, it), { metadata: { annotations } });
    await hub.create(UPDATE_RUNS, {
      metadata: { name: "once" },
      spec: {
        state: "Run",
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.36.0" } },
        strategy: {
          stages: [
            {
              name: "all",
              maxConcurrency: "2",
              groups: [{ name: "all", maxConcurrency: "2", memberSelector: { byLabel: "" } }],
            },
          ],
        },
      },
    });
    const { status } = await until(
      "the run has ended",
      () => hub.get(UPDATE_RUNS, objectKey(undefined, "once")),
      (it) => it.status?.outcome !== undefined,
      { timeoutMs: 100_000 },
    );
    const members = status?.stages.flatMap((stage) => stage.groups.flatMap((it) => it.members)) ?? [];
    expect(members.map((it) => it.status.error?.message)).toEqual([undefined, undefined]);
    expect(status?.counts).toEqual({ Completed: 2 });
    for (const it of MEMBERS) {
      const { items } = await (await lab.client(it)).list(NODES);
      expect(items.map((node) => node.status?.nodeInfo?.["kubeletVersion"])).toEqual(["v1.36.0+fairlead"]);
    }
  });
});
