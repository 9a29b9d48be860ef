import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { MAILBOX_POLICIES, MAILBOX_POLICY_BINDINGS } from "./policies.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";

/**
 * Installs the admission policies for member namespaces, if permitted. Otherwise, or if the server has no policies
 * (Kubernetes before 1.30), it logs a warning; the controllers check the same.
 */
export async function installPolicies(client: KubeClient, log: Logger, signal: AbortSignal): Promise<void> {
  try {
    for (const it of MAILBOX_POLICIES) await install(client, VALIDATING_ADMISSION_POLICIES, it, signal);
    for (const it of MAILBOX_POLICY_BINDINGS)
      await install(client, VALIDATING_ADMISSION_POLICY_BINDINGS, it, signal);
  } catch (error) {
    if (!hasCode(error, "API_FORBIDDEN", "API_NOT_FOUND")) throw error;
    log.warn("mailboxes are not guarded by admission policies: apply docs/reference/rbac/policies.yaml", {
      error: messageOf(error),
    });
  }
}

async function install<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  desired: T,
  signal: AbortSignal,
): Promise<void> {
  const current = await client.find(of, keyOf(desired), { signal });
  if (current !== undefined && says(current, desired)) return;
  await applyIfChanged(client, of, {
    current,
    desired: desired as Applied<T>,
    fieldManager: HUB_MANAGER,
    signal,
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
