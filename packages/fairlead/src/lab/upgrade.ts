import { printText } from "@fairlead/base/print.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { LAB_RELEASES } from "@fairlead/lab/topology.ts";
import { type ChangeState, upgradeCluster } from "@fairlead/lab/upgrade.ts";
import { writeState } from "@fairlead/lab/state.ts";
import { openLab, untilInterrupted } from "./context.ts";
import { lockExisting } from "./faults.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface UpgradeOptions {
  readonly name: string;
  readonly kubernetesVersion: string;
  readonly controlPlaneOnly?: true | undefined;
  readonly nodesOnly?: true | undefined;
  readonly drainTimeout: string;
}

export async function upgrade(cluster: string, options: UpgradeOptions): Promise<void> {
  const { controlPlaneOnly, nodesOnly } = options;
  const release = LAB_RELEASES.find((it) => it === options.kubernetesVersion);
  if (release === undefined)
    throw new FleetError(
      "OPTION_INVALID",
      `--kubernetes-version must be ${LAB_RELEASES.join(" or ")}, got ${JSON.stringify(options.kubernetesVersion)}`,
    );
  if (controlPlaneOnly === true && nodesOnly === true)
    throw new FleetError("OPTION_INVALID", "--control-plane-only and --nodes-only exclude each other");
  const drainMs = parseWhole("--drain-timeout", options.drainTimeout, { min: 1, max: 86_400 }) * 1000;
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  using _lock = await lockExisting(options, signal);
  const startMs = systemClock.monotonic();
  const parts = controlPlaneOnly === true ? "control-plane" : nodesOnly === true ? "nodes" : "all";
  const lab = openLab(options.name);
  let { state } = lab;
  // The lock is held until the end.
  const changeState: ChangeState = async (change, follow) => {
    state = change(state);
    writeState(lab.layout, state);
    await follow?.(state);
    return state;
  };
  const report = (step: string): void => printText(`  ${step}`);
  await upgradeCluster(lab, { cluster, release, parts, drainMs }, { report, changeState }, signal);
  const seconds = ((systemClock.monotonic() - startMs) / 1000).toFixed(1);
  printText(`${cluster} has Kubernetes ${release} (${seconds} s).`);
}
