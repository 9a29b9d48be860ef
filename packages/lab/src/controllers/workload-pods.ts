import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { planClaims, settleClaims } from "./claims.ts";
import { Expectations } from "./expectations.ts";
import type { LabInformers } from "./informers.ts";
import { ownerReferenceTo } from "./templates.ts";

/** What the controller of a workload is given. */
export interface WorkloadParts<Informers extends keyof LabInformers> {
  readonly client: KubeClient;
  readonly informers: Pick<LabInformers, Informers | "pods">;
  readonly events: EventRecorder;
}

type Workload = KubeObject & { readonly spec?: { readonly selector?: LabelSelector } };

/**
 * The pods of the workloads of one kind: claimed by their selector, created and deleted, expected in the cache from then on,
 * and reported as events. Source: k8s.io/kubernetes, pkg/controller/controller_utils.go, RealPodControl.
 */
export class WorkloadPods<T extends Workload> {
  readonly #of: Resource<T>;
  readonly #parts: WorkloadParts<never>;
  readonly #expectations: Expectations;

  constructor(of: Resource<T>, parts: WorkloadParts<never>, clock: Clock) {
    this.#of = of;
    this.#parts = parts;
    this.#expectations = new Expectations(parts.informers.pods, clock);
  }

  /** Whether the cache shows what was done. To be asked before the pods are read: what is expected must be among them. */
  isSettled(owner: T): boolean {
    return this.#expectations.isMet(owner.metadata.uid ?? "");
  }

  /** Adopts pods that the selector matches, and releases those that it does not. @returns Its own. */
  async claim(owner: T, signal: AbortSignal): Promise<readonly Pod[]> {
    const { client, informers } = this.#parts;
    const inNamespace = informers.pods.store.byIndex("namespace", owner.metadata.namespace ?? "");
    const claims = planClaims(owner, inNamespace, matcherOf(owner.spec?.selector));
    await settleClaims(client, ownerReferenceTo(this.#of, owner), claims, signal);
    return claims.own;
  }

  async create(owner: T, pod: Pod, signal: AbortSignal): Promise<void> {
    this.#expectations.expectCreated(owner.metadata.uid ?? "", keyOf(pod));
    try {
      await this.#parts.client.create(PODS, pod, { signal });
    } catch (error) {
      this.#expectations.forgetCreated(keyOf(pod));
      this.report(owner, "Warning", "FailedCreate", `Error creating: ${messageOf(error)}`);
      throw error;
    }
    this.report(owner, "Normal", "SuccessfulCreate", `Created pod: ${pod.metadata.name}`);
  }

  /** The uid makes sure that it is still the same pod. */
  async delete(owner: T, pod: Pod, signal: AbortSignal): Promise<void> {
    const { uid = "" } = owner.metadata;
    this.#expectations.expectDeleted(uid, pod);
    try {
      await this.#parts.client.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "", signal });
    } catch (error) {
      this.#expectations.forgetDeleted(uid, pod);
      if (!hasCode(error, "API_CONFLICT")) throw error;
      return;
    }
    this.report(owner, "Normal", "SuccessfulDelete", `Deleted pod: ${pod.metadata.name}`);
  }

  /** Records an event about the workload. */
  report(owner: T, type: "Normal" | "Warning", reason: string, message: string): void {
    this.#parts.events.record(this.#of, owner, { type, reason, message });
  }
}
