import { createHash } from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";
import { CRON_JOBS, type Job, JOBS, type JobSpec } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Container, EnvVar } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { ClusterUpgradeStatus, UpgradeTarget } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import {
  type ClusterUpgrader,
  OPERATION_ANNOTATION,
  UPGRADE_LABEL,
  type ReadCluster,
  type UpgradeOperation,
} from "./upgrader.ts";

/**
 * Upgrades a cluster by a Job of the user's. Its template is that of a suspended CronJob in `fleet-system`, as
 * `kubectl create job --from` takes it; the target is in the environment of its containers.
 */
export class JobUpgrader implements ClusterUpgrader {
  readonly #client: KubeClient;
  readonly #template: string;
  readonly #read: ReadCluster;

  /** @param template - The name of the CronJob. */
  constructor(client: KubeClient, template: string, read: ReadCluster) {
    this.#client = client;
    this.#template = template;
    this.#read = read;
  }

  async observe(operation: UpgradeOperation | undefined, signal: AbortSignal): Promise<ClusterUpgradeStatus> {
    const job = operation && (await this.#client.find(JOBS, this.#keyOf(operation), { signal }));
    // Afterwards: nodes are those that the end of the Job left.
    const cluster = await this.#read(signal);
    return operation === undefined || job === undefined
      ? cluster
      : { ...cluster, operation: { id: operation.id, ...stateOf(job) } };
  }

  async start(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    const key = this.#keyOf(operation);
    if ((await this.#client.find(JOBS, key, { signal })) !== undefined) return;
    const template = await this.#client.find(CRON_JOBS, objectKey(FLEET_SYSTEM_NAMESPACE, this.#template), {
      signal,
    });
    if (template?.spec === undefined)
      throw new FleetError(
        "PRECONDITION_FAILED",
        `CronJob ${FLEET_SYSTEM_NAMESPACE}/${this.#template}, the template of the upgrade's Job, does not exist`,
      );
    await this.#client.create(
      JOBS,
      {
        metadata: {
          namespace: FLEET_SYSTEM_NAMESPACE,
          name: this.#nameOf(operation),
          labels: { [UPGRADE_LABEL]: "true" },
          annotations: { [OPERATION_ANNOTATION]: operation.id },
        },
        spec: withEnvironment(template.spec.jobTemplate.spec, operation.target),
      },
      { signal },
    );
  }

  #keyOf(operation: UpgradeOperation) {
    return objectKey(FLEET_SYSTEM_NAMESPACE, this.#nameOf(operation));
  }

  #nameOf({ id }: UpgradeOperation): string {
    const hash = createHash("sha256").update(id).digest("hex").slice(0, 10);
    return `${this.#template.slice(0, 52)}-${hash}`;
  }
}

function stateOf({ status }: Job): { state: "Running" | "Succeeded" | "Failed"; message?: string } {
  const isTrue = (type: string) => status?.conditions?.find((it) => it.type === type && it.status === "True");
  if (isTrue("Complete") !== undefined) return { state: "Succeeded" };
  const failed = isTrue("Failed");
  if (failed === undefined) return { state: "Running" };
  return { state: "Failed", message: failed.message ?? failed.reason ?? "the Job failed" };
}

/** The names are part of what users build on (docs/guide/upgrades.md). */
function environmentOf({ type, kubernetesVersion = "", nodeImages = [] }: UpgradeTarget): EnvVar[] {
  return [
    { name: "FAIRLEAD_UPGRADE_TYPE", value: type },
    { name: "FAIRLEAD_KUBERNETES_VERSION", value: kubernetesVersion },
    { name: "FAIRLEAD_NODE_IMAGES", value: nodeImages.join(",") },
  ];
}

function withEnvironment(spec: JobSpec, target: UpgradeTarget): JobSpec {
  const added = environmentOf(target);
  const names = new Set(added.map((it) => it.name));
  const extend = (it: Container): Container => ({
    ...it,
    env: [...(it.env ?? []).filter(({ name }) => !names.has(name)), ...added],
  });
  const pod = spec.template.spec;
  if (pod === undefined) return spec;
  const { initContainers } = pod;
  const extended = {
    ...pod,
    containers: pod.containers.map(extend),
    ...(initContainers === undefined ? {} : { initContainers: initContainers.map(extend) }),
  };
  return { ...spec, template: { ...spec.template, spec: extended } };
}
