import { FleetError } from "@fairlead/base/errors.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { PlanUpgrader } from "./plans.ts";
import { JobUpgrader } from "./job.ts";
import { type ClusterUpgrader, EXTERNAL_ENGINE, type ReadCluster } from "./upgrader.ts";

/** Engines that run in the cluster that they upgrade. Their names are the beginning of annotation `fairlead.dev/upgrader`. */

/**
 * The engine that the annotation names.
 *
 * @param upgradeImage - Of Plans, without a tag. Default: by the version.
 * @throws {FleetError} `PRECONDITION_FAILED` if there is no such engine.
 */
export function localUpgrader(
  engine: string,
  client: KubeClient,
  read: ReadCluster,
  upgradeImage?: string,
): ClusterUpgrader {
  const [kind, ...rest] = engine.split(":");
  const argument = rest.join(":");
  if (kind === "Job" && argument !== "") return new JobUpgrader(client, argument, read);
  if (kind === "SystemUpgradeController")
    return new PlanUpgrader(client, { asked: argument, own: upgradeImage }, read);
  throw new FleetError(
    "PRECONDITION_FAILED",
    `annotation fairlead.dev/upgrader: ${JSON.stringify(engine)} is not an engine; use Job:NAME, where NAME is a CronJob in fleet-system, SystemUpgradeController, ClusterAPI:NAMESPACE/NAME, or ${EXTERNAL_ENGINE}`,
  );
}
