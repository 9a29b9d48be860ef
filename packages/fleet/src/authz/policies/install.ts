import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
  type ValidatingAdmissionPolicy,
  type ValidatingAdmissionPolicyBinding,
  VALIDATING_WEBHOOK_CONFIGURATIONS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";
import { bindingOf, GUARD_RAILS } from "./guard-rails.ts";
import { PLACEMENT_POLICIES } from "./placements.ts";
import { MAILBOX_POLICIES, MAILBOX_POLICY_BINDINGS } from "./policies.ts";

/** KubeFleet's webhooks. Where its hub agent enforces these rules, its own configuration decides which. */
export const KUBEFLEET_WEBHOOKS: readonly string[] = [
  "fleet-validating-webhook-configuration",
  "fleet-guard-rail-webhook-configuration",
];

/** How many are written at once: more connections cost more than they save. */
const AT_ONCE = 4;

/**
 * Installs the admission policies of the hub, if permitted. Otherwise, or if the server has no policies (Kubernetes before
 * 1.30), it logs a warning; the controllers check the same.
 */
export async function installPolicies(client: KubeClient, log: Logger, signal: AbortSignal): Promise<void> {
  try {
    const others = await enforcingWebhooks(client, signal);
    if (others.length > 0)
      log.info("KubeFleet's webhooks guard this hub: the policies of the same rules are not installed", {
        webhooks: others.join(", "),
      });
    const policies = others.length > 0 ? [] : [...GUARD_RAILS, ...PLACEMENT_POLICIES];
    await installAll(
      client,
      [...MAILBOX_POLICIES, ...policies],
      [...MAILBOX_POLICY_BINDINGS, ...policies.map(bindingOf)],
      signal,
    );
  } catch (error) {
    if (!hasCode(error, "API_FORBIDDEN", "API_NOT_FOUND")) throw error;
    log.warn("the hub is not guarded by admission policies: apply docs/reference/rbac/policies.yaml", {
      error: messageOf(error),
    });
  }
}

/** Installs one of the optional policies, with its binding. */
export async function installPolicy(
  client: KubeClient,
  policy: ValidatingAdmissionPolicy,
  signal: AbortSignal,
): Promise<void> {
  await installAll(client, [policy], [bindingOf(policy)], signal);
}

/** The names of KubeFleet's webhook configurations that the hub has. */
export async function enforcingWebhooks(client: KubeClient, signal: AbortSignal): Promise<readonly string[]> {
  const found = await Promise.all(
    KUBEFLEET_WEBHOOKS.map((name) =>
      client.find(VALIDATING_WEBHOOK_CONFIGURATIONS, objectKey(undefined, name), { signal }),
    ),
  );
  return found.flatMap((it) => (it === undefined ? [] : [it.metadata.name]));
}

async function installAll(
  client: KubeClient,
  policies: readonly ValidatingAdmissionPolicy[],
  bindings: readonly ValidatingAdmissionPolicyBinding[],
  signal: AbortSignal,
): Promise<void> {
  await install(client, VALIDATING_ADMISSION_POLICIES, policies, signal);
  await install(client, VALIDATING_ADMISSION_POLICY_BINDINGS, bindings, signal);
}

/** Reads all of a kind in one request: a cluster has few that are not these. */
async function install<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  wanted: readonly T[],
  signal: AbortSignal,
): Promise<void> {
  const { items } = await client.list(of, { signal });
  const present = new Map(items.map((it) => [it.metadata.name, it]));
  await inParallel(wanted, AT_ONCE, async (desired) => {
    const current = present.get(desired.metadata.name);
    if (current !== undefined && says(current, desired)) return;
    await applyIfChanged(client, of, {
      current,
      desired: desired as Applied<T>,
      fieldManager: HUB_MANAGER,
      signal,
    });
  });
}

/** Whether an object has all fields of `wanted`, whether this program or a chart installed it. */
function says(present: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted))
    return (
      Array.isArray(present) &&
      present.length === wanted.length &&
      wanted.every((it, at) => says(present[at], it))
    );
  if (typeof wanted !== "object" || wanted === null) return present === wanted;
  if (typeof present !== "object" || present === null) return false;
  const fields = present as Readonly<Record<string, unknown>>;
  return Object.entries(wanted).every(([name, value]) => says(fields[name], value));
}
