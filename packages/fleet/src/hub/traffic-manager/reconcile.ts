import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { drainModeOf } from "#domain/drain.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FINALIZERS } from "#api/networking.fleet.azure.com/names.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
  type TrafficManagerBackend,
  type TrafficManagerProfile,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import type { HealthMonitor } from "./health/monitor.ts";
import type { TrafficInformers } from "./informers.ts";
import { invalid, pending, planBackends, type PlannedBackend } from "./plan.ts";
import { labelOf, monitorOf, nameProblem, programmed } from "./profile.ts";
import type { TrafficProvider } from "./provider.ts";
import type { StatusWriter } from "./status.ts";
import type { PermitsTarget } from "./targets.ts";

export interface TrafficParts {
  readonly client: KubeClient;
  readonly informers: Pick<HubInformers, "serviceImports" | "exports" | "members">;
  readonly traffic: TrafficInformers;
  readonly provider: TrafficProvider;
  readonly health: HealthMonitor;
  readonly status: StatusWriter;
  /** How long answers may be kept. */
  readonly ttlSeconds: number;
  readonly permits: PermitsTarget;
  readonly deps: RuntimeDeps;
}

interface Programming {
  readonly condition: NewCondition;
  readonly againInMs?: number | undefined;
  /** To be tried again. */
  readonly error?: Error;
}

/** One pass for one profile, "namespace/name", and all its backends. */
export async function reconcileProfile(
  parts: TrafficParts,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { traffic, health } = parts;
  const profile = traffic.profiles.store.get(key);
  const backends = [...traffic.backends.store.byIndex("profile", key)];
  if (profile === undefined || isDeleting(profile)) {
    health.follow(key, undefined, []);
    if (profile !== undefined) await retire(parts, profile, signal);
    const { name } = splitName(key);
    const why = profile === undefined ? "is not found" : "is being deleted";
    const accepted = invalid(`TrafficManagerProfile ${JSON.stringify(name)} ${why}`);
    for (const it of backends.filter((one) => !isDeleting(one)))
      await parts.status.backend(it, { accepted, endpoints: [] }, signal);
    await releaseDeleted(parts, backends, signal);
    return {};
  }
  const plan = planBackends(viewOf(parts, profile, backends));
  follow(parts, profile, plan);
  const result = await program(parts, profile, plan, signal);
  const dnsName = `${labelOf(profile)}.${parts.provider.zone}`;
  await parts.status.profile(profile, { programmed: result.condition, dnsName }, signal);
  for (const it of plan)
    await reportBackend(parts, { profile, planned: it, programmed: result.condition }, signal);
  if (result.error !== undefined) throw result.error;
  await releaseDeleted(parts, backends, signal);
  return result.againInMs === undefined ? {} : { requeueAfterMs: result.againInMs };
}

function splitName(key: ObjectKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

function viewOf(
  { informers, health, permits }: TrafficParts,
  { metadata: { namespace } }: TrafficManagerProfile,
  backends: readonly TrafficManagerBackend[],
): Parameters<typeof planBackends>[0] {
  const last = new Map(
    backends.flatMap((it) => (it.status?.endpoints ?? []).map((one) => [one.name, one.health] as const)),
  );
  return {
    backends,
    serviceImport: (name) => informers.serviceImports.store.get(objectKey(namespace, name)),
    exports: (name) => [...informers.exports.store.byIndex("service", objectKey(namespace, name))],
    drain: (cluster) => {
      const member = informers.members.store.get(objectKey(undefined, cluster));
      return member === undefined ? undefined : drainModeOf(member);
    },
    permits,
    health: (endpoint) => health.healthOf(endpoint, last.get(endpoint)),
  };
}

function follow(
  { health }: TrafficParts,
  profile: TrafficManagerProfile,
  plan: readonly PlannedBackend[],
): void {
  const endpoints = plan.flatMap((it) => it.endpoints);
  health.follow(
    keyOf(profile),
    monitorOf(profile),
    endpoints.map(({ target, status }) => ({
      name: target.name,
      hosts: target.addresses ?? (target.hostname === undefined ? [] : [target.hostname]),
      last: status.health,
    })),
  );
}

/** Adds the finalizers first: what is programmed has to be deleted later. */
async function program(
  { client, traffic, provider, ttlSeconds }: TrafficParts,
  profile: TrafficManagerProfile,
  plan: readonly PlannedBackend[],
  signal: AbortSignal,
): Promise<Programming> {
  const label = labelOf(profile);
  const problem = nameProblem(profile, [...traffic.profiles.store.byIndex("label", label)]);
  if (problem !== undefined) return { condition: problem };
  const finalizer = FINALIZERS.trafficManagerProfile;
  await addFinalizer(client, TRAFFIC_MANAGER_PROFILES, profile, { finalizer, signal });
  for (const { backend } of plan.filter((it) => it.endpoints.length > 0))
    await addFinalizer(client, TRAFFIC_MANAGER_BACKENDS, backend, {
      finalizer: FINALIZERS.trafficManagerBackend,
      signal,
    });
  const targets = plan.flatMap((it) => it.endpoints.map((endpoint) => endpoint.target));
  try {
    const outcome = await provider.program({ label, profile: keyOf(profile), ttlSeconds, targets }, signal);
    const condition = programmed(outcome, `${label}.${provider.zone}`);
    return { condition, againInMs: outcome.againInMs };
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `cannot program ${label}.${provider.zone}, retrying: ${messageOf(error)}`;
    const condition: NewCondition = { type: "Programmed", status: "Unknown", reason: "Pending", message };
    return { condition, error: Error.isError(error) ? error : new Error(message) };
  }
}

async function reportBackend(
  { status }: TrafficParts,
  it: {
    readonly profile: TrafficManagerProfile;
    readonly planned: PlannedBackend;
    readonly programmed: NewCondition;
  },
  signal: AbortSignal,
): Promise<void> {
  const { backend, accepted, endpoints } = it.planned;
  const name = JSON.stringify(it.profile.metadata.name);
  switch (it.programmed.status) {
    case "True":
      return status.backend(backend, { accepted, endpoints: endpoints.map((one) => one.status) }, signal);
    case "False": {
      const why = invalid(`invalid TrafficManagerProfile ${name}: ${it.programmed.message}`);
      return status.backend(backend, { accepted: why, endpoints: [] }, signal);
    }
    case "Unknown": {
      // What was accepted before is still answered.
      const before = backend.status?.endpoints ?? [];
      const why = pending(`TrafficManagerProfile ${name} is being programmed`);
      return status.backend(backend, { accepted: why, endpoints: before }, signal);
    }
    default:
      return it.programmed.status satisfies never;
  }
}

/** Takes the name of a profile that is going away, unless it never had it. */
async function retire(
  { client, traffic, provider, deps }: TrafficParts,
  profile: TrafficManagerProfile,
  signal: AbortSignal,
): Promise<void> {
  const finalizer = FINALIZERS.trafficManagerProfile;
  const label = labelOf(profile);
  const owns = nameProblem(profile, [...traffic.profiles.store.byIndex("label", label)]) === undefined;
  if (owns && profile.metadata.finalizers?.includes(finalizer) === true) {
    try {
      await provider.withdraw(label, signal);
    } catch (error) {
      // A profile whose name could never be written must not hang because it cannot be withdrawn either.
      if (!hasCode(error, "DNS_REFUSED") || isConditionTrue(profile.status?.conditions, "Programmed"))
        throw error;
      deps.log.warn("abandoning a DNS name that the provider refused", {
        key: keyOf(profile),
        error: messageOf(error),
      });
    }
  }
  await release(client, TRAFFIC_MANAGER_PROFILES, profile, { finalizer, signal });
}

/** Their endpoints are out of the profile by now. */
async function releaseDeleted(
  { client }: TrafficParts,
  backends: readonly TrafficManagerBackend[],
  signal: AbortSignal,
): Promise<void> {
  for (const it of backends.filter(isDeleting))
    await release(client, TRAFFIC_MANAGER_BACKENDS, it, {
      finalizer: FINALIZERS.trafficManagerBackend,
      signal,
    });
}

/** Also removes the finalizer of legacy controllers: an object has both at most once. */
const release: typeof removeFinalizer = async (client, of, object, options) => {
  await removeFinalizer(client, of, object, options);
  await removeFinalizer(client, of, object, { ...options, finalizer: FINALIZERS.trafficManagerMetrics });
};
