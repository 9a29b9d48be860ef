import { type LoadBalancerIngress, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { AddressBook, isOurs } from "./plan.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: Pick<LabInformers, "services">;
  readonly events: EventRecorder;
  readonly prefixes: readonly Prefix[];
}

/** Writes the addresses of Services of type LoadBalancer; what makes them answer is each node's service proxy. */
export function loadBalancerController(parts: Parts, deps: RuntimeDeps): Controller {
  const { services } = parts.informers;
  const provider = new Provider(parts);
  return createController(
    {
      name: "load-balancer",
      reconcile: untilEnding((key, signal) => provider.reconcile(key, signal)),
      sources: [watching(services)],
      // One after another: who came first must not depend on which request was quicker.
      concurrency: 1,
    },
    deps,
  );
}

class Provider {
  readonly #parts: Parts;
  readonly #book: AddressBook;
  #hasAdopted = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#book = new AddressBook(parts.prefixes);
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { store } = this.#parts.informers.services;
    if (!this.#hasAdopted) {
      this.#book.adopt([...store.list()].map((service) => [keyOf(service), service] as const));
      this.#hasAdopted = true;
    }
    const service = store.get(key);
    if (service === undefined || !isOurs(service)) {
      this.#book.release(key);
      if (service !== undefined) await this.#clear(service, signal);
      return;
    }
    const { ingress, missing } = this.#book.assign(key, service);
    await this.#write(service, ingress, signal);
    if (missing.length === 0) return;
    const message = `no load balancer address is left: ${missing.join(", ")}`;
    this.#parts.events.record(SERVICES, service, {
      type: "Warning",
      reason: "SyncLoadBalancerFailed",
      message,
    });
    throw new FleetError("OPTION_INVALID", message, { retriable: true, detail: { service: key } });
  }

  /** Removes our addresses from a Service that is no longer a load balancer; other addresses are left as they are. */
  async #clear(service: Service, signal: AbortSignal): Promise<void> {
    const present = service.status?.loadBalancer?.ingress ?? [];
    const foreign = present.filter(({ ip = "" }) => !this.#book.covers(ip));
    const isOther = service.spec?.type === "LoadBalancer" && service.metadata.deletionTimestamp === undefined;
    if (!isOther) await this.#write(service, foreign, signal);
  }

  async #write(
    service: Service,
    ingress: readonly LoadBalancerIngress[],
    signal: AbortSignal,
  ): Promise<void> {
    if (sameJson(service.status?.loadBalancer?.ingress ?? [], ingress)) return;
    const { uid, resourceVersion } = service.metadata;
    const patch = { metadata: { uid, resourceVersion }, status: { loadBalancer: { ingress } } };
    const { client } = this.#parts;
    await client.mergePatch(SERVICES, keyOf(service), patch, { subresource: "status", signal });
  }
}
