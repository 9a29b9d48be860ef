import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
  type TrafficManagerBackend,
  type TrafficManagerEndpointStatus,
  type TrafficManagerProfile,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { findCondition, type NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { StatusGauges } from "./gauges.ts";

/** Reports to profiles and backends what came of them: status, events and gauges, each only when something changed. */
export class StatusWriter {
  readonly #client: KubeClient;
  readonly #events: EventRecorder;
  readonly #gauges: StatusGauges;
  readonly #deps: RuntimeDeps;

  constructor(
    parts: { readonly client: KubeClient; readonly events: EventRecorder; readonly deps: RuntimeDeps },
    gauges: StatusGauges,
  ) {
    this.#client = parts.client;
    this.#events = parts.events;
    this.#deps = parts.deps;
    this.#gauges = gauges;
  }

  async profile(
    profile: TrafficManagerProfile,
    next: { readonly programmed: NewCondition; readonly dnsName: string },
    signal: AbortSignal,
  ): Promise<void> {
    const isKnown = next.programmed.status === "True" || profile.status?.dnsName === next.dnsName;
    // What clients use is shown while it may answer, also while its server cannot be reached.
    const rest = next.programmed.status !== "False" && isKnown ? { dnsName: next.dnsName } : {};
    const of = TRAFFIC_MANAGER_PROFILES;
    await this.#write({ of, kind: "profile", object: profile, condition: next.programmed, rest }, signal);
  }

  async backend(
    backend: TrafficManagerBackend,
    next: { readonly accepted: NewCondition; readonly endpoints: readonly TrafficManagerEndpointStatus[] },
    signal: AbortSignal,
  ): Promise<void> {
    const endpoints = [...next.endpoints];
    const of = TRAFFIC_MANAGER_BACKENDS;
    const write = { of, kind: "backend" as const, object: backend, condition: next.accepted };
    if (!(await this.#write({ ...write, rest: { endpoints } }, signal))) return;
    for (const it of endpoints) this.#reportHealth(backend, it);
  }

  /** @returns Whether something was written. */
  async #write<T extends KubeObject & { status?: { conditions?: Condition[] } }>(
    it: {
      readonly of: Resource<T>;
      readonly kind: "profile" | "backend";
      readonly object: T;
      readonly condition: NewCondition;
      readonly rest: object;
    },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { of, object, condition } = it;
    const before = findCondition(object.status?.conditions, condition.type);
    const after = await writeConditions<T>(this.#client, of, {
      object,
      own: new Set([condition.type]),
      next: [condition],
      rest: it.rest,
      fieldManager: HUB_MANAGER,
      clock: this.#deps.clock,
      signal,
    });
    if (after === undefined || after === object) return false;
    const written = findCondition(after.status?.conditions, condition.type);
    if (written !== undefined) this.#gauges.note(it.kind, object, written);
    if (before?.status !== condition.status || before.reason !== condition.reason)
      this.#report(of, object, condition);
    return true;
  }

  #report<T extends KubeObject>(of: Resource<T>, object: T, { status, reason, message }: NewCondition): void {
    const isProblem = status === "False";
    this.#events.record(of, object, { type: isProblem ? "Warning" : "Normal", reason, message });
    const fields = { kind: of.kind, key: keyOf(object), reason, said: message };
    if (isProblem) this.#deps.log.warn("traffic manager", fields);
    else this.#deps.log.info("traffic manager", fields);
  }

  #reportHealth(
    backend: TrafficManagerBackend,
    { name, health, from, target }: TrafficManagerEndpointStatus,
  ): void {
    const before = backend.status?.endpoints?.find((it) => it.name === name)?.health;
    if (before === health || (health !== "Degraded" && before !== "Degraded")) return;
    const isWell = health !== "Degraded";
    this.#events.record(TRAFFIC_MANAGER_BACKENDS, backend, {
      type: isWell ? "Normal" : "Warning",
      reason: isWell ? "EndpointOnline" : "EndpointDegraded",
      message: `checks of the endpoint in cluster ${from?.cluster} (${target}) ${isWell ? "succeed again" : "fail"}`,
    });
  }
}
