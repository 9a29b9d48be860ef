import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { delay } from "#base/clock.ts";
import { hasCode, messageOf } from "#base/errors.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { runAsLeader } from "#kube/leader.ts";
import { ensureNamespace } from "#kube/namespaces.ts";
import type { KubeClient } from "#kube/types.ts";

/** How programs that may run in several copies agree on the one that acts. */

export const LEADER_FLAG = [
  "--no-leader-elect",
  "act without asking whether another copy does: only where there is never more than one",
] as const;

const RETRY_MS = 1000;

/**
 * Runs `lead` while this process holds the Lease `name` in fleet-system, or at once where there is no election. Whoever
 * loses the Lease, because its API server was away for long, stops and stands for it again.
 */
export async function runElected(
  parts: {
    readonly client: KubeClient;
    readonly name: string;
    readonly isElected: boolean;
    readonly deps: RuntimeDeps;
  },
  signal: AbortSignal,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { client, name, isElected, deps } = parts;
  const identity = `${hostname()}_${randomBytes(6).toString("hex")}`;
  const options = { namespace: FLEET_SYSTEM_NAMESPACE, name, identity };
  while (!signal.aborted) {
    try {
      await ensureNamespace(client, FLEET_SYSTEM_NAMESPACE, signal);
      if (isElected) await runAsLeader({ client, options, deps }, signal, lead);
      else await lead(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!hasCode(error, "API_CONFLICT", "API_UNAVAILABLE", "API_TIMEOUT", "TIMED_OUT")) throw error;
      deps.log.warn("begins anew", { error: messageOf(error) });
      await delay(deps.clock, RETRY_MS, signal).catch(() => {});
    }
  }
}
