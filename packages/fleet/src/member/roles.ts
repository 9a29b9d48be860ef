import { NETWORKING_AGENTS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import type { LocalInformers, MailboxInformers } from "./informers.ts";

/**
 * The parts of a member that may run as separate programs, each with the upstream program of the other part: "member-net"
 * exports and imports, "mcs" makes load balancers of MultiClusterServices.
 */
export type MemberRole = "member-net" | "mcs";

const MEMBER_ROLES: readonly MemberRole[] = ["member-net", "mcs"];

/** The name under which a role reports to the hub. */
const AGENTS: Readonly<Record<MemberRole, (typeof NETWORKING_AGENTS)[number]>> = {
  mcs: "MultiClusterServiceAgent",
  "member-net": "ServiceExportImportAgent",
};

/** Which of them knows of exports. */
export const EXPORTS_AGENT = AGENTS["member-net"];

/** What a member's program does. */
export interface MemberPart {
  readonly roles: ReadonlySet<MemberRole>;
  /** Without it the roles only report that they are there. */
  readonly isNetworking: boolean;
  /**
   * Continues without the kinds of the Multi-Cluster Services API, and without reading Namespaces, where the cluster does
   * not serve or allow them: fleet-networking's installation knows neither. It may have no InternalMemberClusters, either.
   */
  readonly isFleetOnly?: boolean;
}

export const WHOLE_MEMBER: MemberPart = { roles: new Set(MEMBER_ROLES), isNetworking: true };

/** In the order of the agents that the hub knows. */
export function agentsOf({ roles }: MemberPart): readonly string[] {
  return NETWORKING_AGENTS.filter((agent) => [...roles].some((role) => AGENTS[role] === agent));
}

/** Whether the controllers of a role run here. */
export function runs({ roles, isNetworking }: MemberPart, role: MemberRole): boolean {
  return isNetworking && roles.has(role);
}

/** The informers that a part reads. All others must not be started: their kinds need not be there, nor be allowed. */
export function neededInformers(
  part: MemberPart,
  { here, mailbox }: { readonly here: LocalInformers; readonly mailbox: MailboxInformers },
): { readonly here: readonly Informer<KubeObject>[]; readonly mailbox: readonly Informer<KubeObject>[] } {
  const all = (of: object): Informer<KubeObject>[] => Object.values(of) as Informer<KubeObject>[];
  if (runs(part, "member-net")) return { here: all(here), mailbox: all(mailbox) };
  const { services, fleetImports, multiClusterServices } = here;
  const { internalMembers } = mailbox;
  return {
    here: runs(part, "mcs") ? all({ services, fleetImports, multiClusterServices }) : [],
    mailbox: all({ internalMembers }),
  };
}
