import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { microTimestamp, timestamp } from "@fairlead/kube/objects/conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Runs nothing: reports every pod of its node as running and ready, and removes deleted ones. */
export class FakeKubelet implements AsyncDisposable {
  readonly #client: KubeClient;
  readonly #name: string;
  readonly #deps: RuntimeDeps;
  readonly #stack = new AsyncDisposableStack();
  #pods = 0;
  /** True if it reports pods as ready. */
  isWell: (pod: Pod) => boolean = () => true;

  constructor(client: KubeClient, name: string, deps: RuntimeDeps) {
    this.#client = client;
    this.#name = name;
    this.#deps = deps;
  }

  async start(signal: AbortSignal, number: number): Promise<void> {
    const name = this.#name;
    const labels = { "topology.kubernetes.io/zone": `zone-${number}`, "kubernetes.io/hostname": name };
    await this.#client.create(NODES, { metadata: { name, labels } });
    await this.beat();
    await this.postStatus();
    const pods = this.#stack.use(
      createInformer(this.#client, PODS, { fieldSelector: `spec.nodeName=${name}` }, this.#deps),
    );
    const reconcile = async (key: ObjectKey): Promise<void> => {
      const pod = pods.store.get(key);
      if (pod !== undefined) await this.#sync(pod, number);
    };
    const options = { name: `kubelet-${name}`, sources: [watching(pods)], reconcile };
    await this.#stack.use(createController(options, this.#deps)).start(signal);
  }

  async postStatus(): Promise<void> {
    const now = timestamp(this.#deps.clock.now());
    const ready = {
      type: "Ready",
      status: "True",
      reason: "KubeletReady",
      message: "",
      lastTransitionTime: now,
    };
    const status = { conditions: [{ ...ready, lastHeartbeatTime: now }] };
    await this.#client.mergePatch(
      NODES,
      objectKey(undefined, this.#name),
      { status },
      { subresource: "status" },
    );
  }

  /** Renews the node's Lease. */
  async beat(): Promise<void> {
    const metadata = { name: this.#name, namespace: "kube-node-lease" };
    const spec = {
      holderIdentity: this.#name,
      leaseDurationSeconds: 5,
      renewTime: microTimestamp(this.#deps.clock.now()),
    };
    await this.#client.apply(LEASES, { metadata, spec }, { fieldManager: "kubelet" });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }

  async #sync(pod: Pod, number: number): Promise<void> {
    const key = keyOf(pod);
    try {
      if (pod.metadata.deletionTimestamp !== undefined) {
        await this.#client.delete(PODS, key, { gracePeriodSeconds: 0, uid: pod.metadata.uid ?? "" });
        return;
      }
      await this.#report(pod, number);
    } catch (error) {
      if (!hasCode(error, "API_NOT_FOUND", "API_CONFLICT")) throw error;
    }
  }

  async #report(pod: Pod, number: number): Promise<void> {
    const status = this.isWell(pod) ? "True" : "False";
    if (pod.status?.conditions?.find((it) => it.type === "Ready")?.status === status) return;
    const podIPs = pod.status?.podIPs ?? this.#addresses(number);
    const ready = { type: "Ready", status, lastTransitionTime: timestamp(this.#deps.clock.now()) };
    const patch = { status: { phase: "Running", podIP: podIPs[0]?.ip, podIPs, conditions: [ready] } };
    await this.#client.mergePatch(PODS, keyOf(pod), patch, { subresource: "status" });
  }

  #addresses(number: number): { ip: string }[] {
    const host = ++this.#pods;
    return [{ ip: `10.1.${number}.${host}` }, { ip: `fd00:1:${number}::${host.toString(16)}` }];
  }
}
