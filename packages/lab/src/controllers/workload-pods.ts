import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Expectations } from "./expectations.ts";

interface Parts<T> {
  readonly client: KubeClient;
  readonly expectations: Expectations;
  /** Records an event about the workload. */
  readonly tell: (owner: T, type: "Normal" | "Warning", reason: string, message: string) => void;
}

/**
 * Creates and deletes the pods of a workload: expected in the cache from then on, and reported as events.
 * Source: k8s.io/kubernetes, pkg/controller/controller_utils.go, RealPodControl.
 */
export class WorkloadPods<T extends KubeObject> {
  readonly #parts: Parts<T>;

  constructor(parts: Parts<T>) {
    this.#parts = parts;
  }

  async create(owner: T, pod: Pod, signal: AbortSignal): Promise<void> {
    const { client, expectations, tell } = this.#parts;
    expectations.expectCreated(owner.metadata.uid ?? "", keyOf(pod));
    try {
      await client.create(PODS, pod, { signal });
    } catch (error) {
      expectations.forgetCreated(keyOf(pod));
      tell(owner, "Warning", "FailedCreate", `Error creating: ${messageOf(error)}`);
      throw error;
    }
    tell(owner, "Normal", "SuccessfulCreate", `Created pod: ${pod.metadata.name}`);
  }

  /** The uid makes sure that it is still the same pod. */
  async delete(owner: T, pod: Pod, signal: AbortSignal): Promise<void> {
    const { client, expectations, tell } = this.#parts;
    const { uid = "" } = owner.metadata;
    expectations.expectDeleted(uid, pod);
    try {
      await client.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "", signal });
    } catch (error) {
      expectations.forgetDeleted(uid, pod);
      if (!hasCode(error, "API_CONFLICT")) throw error;
      return;
    }
    tell(owner, "Normal", "SuccessfulDelete", `Deleted pod: ${pod.metadata.name}`);
  }
}
