import { createHash } from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";
import { CRON_JOBS, type CronJob, type Job, JOBS, type JobSpec } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Container, EnvVar } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import type { ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import {
  type ClusterUpgrader,
  OPERATION_ANNOTATION,
  STOPPED_ANNOTATION,
  STOPPED_MESSAGE,
  UPGRADE_LABEL,
  type ReadCluster,
  type UpgradeOperation,
} from "./upgrader.ts";

/** On the CronJob: its Job can lead the cluster back to an older version. Part of what users build on (docs/guide/upgrades.md). */
export const CAN_ROLL_BACK_ANNOTATION = "fairlead.dev/can-roll-back";

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
    const template = await this.#findTemplate(signal);
    if (template?.spec === undefined)
      throw new FleetError(
        "PRECONDITION_FAILED",
        `CronJob ${FLEET_SYSTEM_NAMESPACE}/${this.#template}, the template of the upgrade's Job, does not exist`,
      );
    const problem = operation.rollback === true ? problemOf(template) : undefined;
    if (problem !== undefined) throw new FleetError("PRECONDITION_FAILED", problem);
    await this.#client.create(
      JOBS,
      {
        metadata: {
          namespace: FLEET_SYSTEM_NAMESPACE,
          name: this.#nameOf(operation),
          labels: { [UPGRADE_LABEL]: "true" },
          annotations: { [OPERATION_ANNOTATION]: operation.id },
        },
        spec: withEnvironment(template.spec.jobTemplate.spec, operation),
      },
      { signal },
    );
  }

  /** A suspended Job ends its pods, which may take their grace period to reach a safe point. */
  async stop(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    const key = this.#keyOf(operation);
    const job = await this.#client.find(JOBS, key, { signal });
    if (job === undefined || isStopped(job) || stateOf(job).state !== "Running") return;
    const patch = {
      metadata: { annotations: { [STOPPED_ANNOTATION]: "true" } },
      spec: { suspend: true },
    };
    await this.#client.mergePatch(JOBS, key, patch, { fieldManager: MEMBER_MANAGER, signal });
  }

  async rollbackProblem(signal: AbortSignal): Promise<string | undefined> {
    const template = await this.#findTemplate(signal);
    return template === undefined ? "the template of its Job does not exist" : problemOf(template);
  }

  async #findTemplate(signal: AbortSignal): Promise<CronJob | undefined> {
    return this.#client.find(CRON_JOBS, objectKey(FLEET_SYSTEM_NAMESPACE, this.#template), { signal });
  }

  #keyOf(operation: UpgradeOperation) {
    return objectKey(FLEET_SYSTEM_NAMESPACE, this.#nameOf(operation));
  }

  #nameOf({ id }: UpgradeOperation): string {
    const hash = createHash("sha256").update(id).digest("hex").slice(0, 10);
    return `${this.#template.slice(0, 52)}-${hash}`;
  }
}

function problemOf({ metadata: { name, annotations } }: CronJob): string | undefined {
  if (annotations?.[CAN_ROLL_BACK_ANNOTATION] === "true") return undefined;
  return `CronJob ${FLEET_SYSTEM_NAMESPACE}/${name} does not say that its Job can go back: it needs annotation ${CAN_ROLL_BACK_ANNOTATION}=true`;
}

function isStopped({ metadata }: Job): boolean {
  return metadata.annotations?.[STOPPED_ANNOTATION] === "true";
}

function stateOf(job: Job): { state: "Running" | "Succeeded" | "Failed"; message?: string } {
  const { status } = job;
  const isTrue = (type: string) => status?.conditions?.find((it) => it.type === type && it.status === "True");
  if (isTrue("Complete") !== undefined) return { state: "Succeeded" };
  const failed = isTrue("Failed");
  if (failed === undefined && isStopped(job))
    return (status?.active ?? 0) > 0
      ? { state: "Running", message: "the Job is being stopped" }
      : { state: "Failed", message: STOPPED_MESSAGE };
  if (failed === undefined) return { state: "Running" };
  return { state: "Failed", message: failed.message ?? failed.reason ?? "the Job failed" };
}

/** The names are part of what users build on (docs/guide/upgrades.md). */
function environmentOf({ target, rollback }: UpgradeOperation): EnvVar[] {
  const { type, kubernetesVersion = "", nodeImages = [] } = target;
  return [
    { name: "FAIRLEAD_UPGRADE_TYPE", value: type },
    { name: "FAIRLEAD_KUBERNETES_VERSION", value: kubernetesVersion },
    { name: "FAIRLEAD_NODE_IMAGES", value: nodeImages.join(",") },
    ...(rollback === true ? [{ name: "FAIRLEAD_ROLLBACK", value: "true" }] : []),
  ];
}

function withEnvironment(spec: JobSpec, operation: UpgradeOperation): JobSpec {
  const added = environmentOf(operation);
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
