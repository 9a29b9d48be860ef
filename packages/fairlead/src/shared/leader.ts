import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import {
  FLEET_SYSTEM_NAMESPACE,
  MANAGER_LEASES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { delay } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { noHealth } from "@fairlead/base/health.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { VERSION_ANNOTATION } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { hubSupportAnnotations } from "@fairlead/fleet/domain/kubernetes-support.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { runAsLeaderOfAll } from "@fairlead/kube/election/leader.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Leader election for programs that may run in several replicas. */

export const LEADER_FLAG = [
  "--no-leader-elect",
  "disable leader election; use only with a single replica",
] as const;

/** The part of a holder's identity that distinguishes the two programs that share a Lease. */
type Side = "hub" | "member";

export interface Election {
  readonly client: KubeClient;
  readonly leases: readonly string[];
  /** Default: fleet-system. */
  readonly namespace?: string;
  readonly side: Side;
  readonly isElected: boolean;
  /** For a program of which there is one at a time: it does not wait for the Lease of its predecessor. Default: a random one. */
  readonly identity?: string | undefined;
  readonly deps: RuntimeDeps;
}

/** What the Leases of a program say of it. */
export function annotationsOf(side: Side): Readonly<Record<string, string>> {
  return { [VERSION_ANNOTATION]: VERSION, ...(side === "hub" ? hubSupportAnnotations() : {}) };
}

const RETRY_MS = 1000;
/** The time limit for controllers to stop; a process that hangs must be restarted. Unit: milliseconds. */
const LONGEST_END_MS = 30_000;

/**
 * Runs `lead` while this process holds its Leases, or at once without leader election. A process that loses one, because its
 * API server was unavailable for long, stops and campaigns again.
 */
export async function runElected(
  election: Election,
  signal: AbortSignal,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { client, leases, namespace = FLEET_SYSTEM_NAMESPACE, side, isElected, deps } = election;
  const options = {
    namespace,
    annotations: annotationsOf(side),
    identity: election.identity ?? `${hostname()}_fairlead-${side}-${randomBytes(6).toString("hex")}`,
  };
  // One cluster may be hub and member: the Lease of either excludes other controllers for both.
  const otherSide = side === "hub" ? "_fairlead-member-" : "_fairlead-hub-";
  const isEquivalentHolder = (holder: string): boolean => holder.includes(otherSide);
  using state = watchLeading(deps);
  const wanted = (isElected ? leases : []).map((name) => ({
    ...options,
    name,
    ...(name === MANAGER_LEASES.hub ? { isEquivalentHolder } : {}),
  }));
  while (!signal.aborted) {
    try {
      await ensureNamespace(client, namespace, signal);
      await runAsLeaderOfAll({ client, options: wanted, deps }, signal, (leading) =>
        state.lead(leading, lead),
      );
    } catch (error) {
      if (signal.aborted) return;
      // What was led may end with the cancelled wait instead of the lost lease.
      if (!hasCode(error, "ABORTED", "API_CONFLICT", "API_UNAVAILABLE", "API_TIMEOUT", "TIMED_OUT"))
        throw error;
      deps.log.warn("lost leadership, campaigning again", { error: messageOf(error) });
      await delay(deps.clock, RETRY_MS, signal).catch(() => {});
    }
  }
}

/** Says whether this process leads, and when it fails to stop though it no longer may. */
function watchLeading({ clock, health = noHealth }: RuntimeDeps): Disposable & {
  lead(signal: AbortSignal, body: (signal: AbortSignal) => Promise<void>): Promise<void>;
} {
  let isLeading = false;
  let endsSinceMs: number | undefined;
  const checks = [
    health.register({
      name: "leading",
      kind: "note",
      problem: () => (isLeading ? undefined : "stands by"),
    }),
    health.register({
      name: "leader-election",
      kind: "live",
      problem: () =>
        endsSinceMs !== undefined && clock.monotonic() - endsSinceMs > LONGEST_END_MS
          ? "leadership lost, but the controllers are still running"
          : undefined,
    }),
  ];
  return {
    async lead(signal, body) {
      const onAbort = (): void => void (endsSinceMs = clock.monotonic());
      signal.addEventListener("abort", onAbort, { once: true });
      isLeading = true;
      try {
        await body(signal);
      } finally {
        isLeading = false;
        endsSinceMs = undefined;
        signal.removeEventListener("abort", onAbort);
      }
    },
    [Symbol.dispose]() {
      for (const check of checks) check[Symbol.dispose]();
    },
  };
}
