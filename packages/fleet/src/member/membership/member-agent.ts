import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import {
  type NewCondition,
  removeCondition,
  setCondition,
  timestamp,
} from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  type AgentStatus,
  type InternalMemberCluster,
  MEMBER_AGENT_TYPE,
  type MemberClusterStatus,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { propertiesChange } from "#domain/cluster-properties.ts";
import { NAMESPACES_COLLECTED } from "./namespaces.ts";
import { PropertyCollector, type PropertyProvider } from "./property-provider.ts";

/** The agent that applies what is placed: its health, and what placements select clusters by. */

/** Distinguishes the entry of this program from that of KubeFleet's agent. */
const MESSAGE = "applies what is placed on this cluster";
const PROBLEM = "the agent for what is placed on this cluster ";
const LONGEST_MESSAGE = 32_768;

/** Where the agent is on its way into the fleet, or out of it. */
export type Membership =
  | {
      readonly state: "joining" | "leaving";
      /** Why it does not get on. */
      readonly problem: string | undefined;
    }
  | {
      readonly state: "left";
      /** What became of placed objects. */
      readonly placed: string;
    };

const FAILED = {
  joining: "InternalMemberClusterFailedToJoin",
  leaving: "InternalMemberClusterFailedToLeave",
} as const;

/** As KubeFleet's agent, which has failed to join or to leave is neither in the fleet nor out of it. */
export function joinedAsMemberAgent(membership: Membership): NewCondition {
  const type = "Joined";
  if (membership.state === "left")
    return { type, status: "False", reason: "InternalMemberClusterLeft", message: membership.placed };
  const { state, problem } = membership;
  if (problem !== undefined)
    return {
      type,
      status: "Unknown",
      reason: FAILED[state],
      message: `${PROBLEM}${problem}`.slice(0, LONGEST_MESSAGE),
    };
  return { type, status: "True", reason: "InternalMemberClusterJoined", message: MESSAGE };
}

/** Whether this program wrote it, which no longer applies anything. */
export function isFormerMemberAgent({ type, conditions = [] }: AgentStatus): boolean {
  return (
    type === MEMBER_AGENT_TYPE &&
    conditions.some(
      (it) => it.type === "Joined" && (it.message === MESSAGE || it.message.startsWith(PROBLEM)),
    )
  );
}

/** A part of `status` as a merge patch. */
export interface MemberReport {
  readonly conditions: Condition[];
  readonly properties: Record<string, unknown>;
  readonly resourceUsage?: NonNullable<MemberClusterStatus["resourceUsage"]>;
  readonly namespaces?: Record<string, string | null>;
}

export class MemberAgent {
  readonly #local: KubeClient;
  readonly #deps: RuntimeDeps;
  readonly #collector: PropertyCollector;
  /** Names that the provider returned last. */
  #own: ReadonlySet<string> = new Set();

  constructor(local: KubeClient, provider: PropertyProvider, deps: RuntimeDeps) {
    this.#local = local;
    this.#deps = deps;
    this.#collector = new PropertyCollector(provider, deps.clock);
  }

  /** Asks the cluster's API server whether it is ready. */
  async health(signal: AbortSignal): Promise<NewCondition> {
    const type = "Healthy";
    try {
      await this.#local.request("GET", "/readyz", undefined, { signal });
      return { type, status: "True", reason: "InternalMemberClusterHealthy", message: "/readyz answers 200" };
    } catch (error) {
      if (signal.aborted) throw error;
      return { type, status: "False", reason: "InternalMemberClusterUnhealthy", message: messageOf(error) };
    }
  }

  async report(before: InternalMemberCluster["status"], signal: AbortSignal): Promise<MemberReport> {
    const { clock } = this.#deps;
    const { found, conditions: next } = await this.#collector.collect(signal);
    let conditions = before?.conditions ?? [];
    for (const it of next) conditions = setCondition(conditions, it, clock);
    if (found !== undefined && found.namespaces === undefined)
      conditions = removeCondition(conditions, NAMESPACES_COLLECTED);
    if (found === undefined) return { conditions, properties: {} };
    const now = timestamp(clock.now());
    const properties = propertiesChange(found.properties, before?.properties, { now, own: this.#own });
    this.#own = new Set(found.properties.keys());
    const { resourceUsage, namespaces } = found;
    return {
      conditions,
      properties,
      ...(resourceUsage === undefined ? {} : { resourceUsage: { ...resourceUsage, observationTime: now } }),
      ...namespacesChange(namespaces, before),
    };
  }
}

/** As a merge patch: null removes one that is gone, and all of them where they are no longer reported. */
function namespacesChange(
  namespaces: ReadonlyMap<string, string> | undefined,
  before: InternalMemberCluster["status"],
): Pick<MemberReport, "namespaces"> {
  const gone = Object.keys(before?.namespaces ?? {}).filter((it) => namespaces?.has(it) !== true);
  const change = {
    ...Object.fromEntries(gone.map((it) => [it, null])),
    ...Object.fromEntries(namespaces ?? []),
  };
  return Object.keys(change).length === 0 ? {} : { namespaces: change };
}
