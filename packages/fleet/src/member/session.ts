import type { InternalMemberCluster, PlacedOnLeave } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { CompileHealth } from "#placement/work/health.ts";
import type { NodeAgents } from "./node-agents/node-agents.ts";
import type { MeshInformers } from "./fleet-addresses.ts";
import type { FleetState } from "./fleet-state.ts";
import type { LocalInformers, MailboxInformers } from "./informers.ts";
import type { ClusterAddress } from "./membership/built-in-properties.ts";
import type { Ranges } from "./membership/ranges.ts";
import type { MemberPart } from "./roles.ts";
import type { Stopwatch } from "./stopwatch.ts";
import type { PlacingProblems } from "./work/problems.ts";

export const IMPORT_CREATORS = ["automatic", "manual"] as const;
export type ImportCreator = (typeof IMPORT_CREATORS)[number];

/** What every controller of a member is given: both sides, for as long as the cluster is in the fleet. */
export interface Session {
  /** The member's name, which is its cluster id. */
  readonly cluster: string;
  readonly part: MemberPart;
  readonly local: KubeClient;
  readonly hub: KubeClient;
  readonly here: LocalInformers;
  readonly mailbox: MailboxInformers;
  /** Undefined if this part does not report them. */
  readonly ranges: Ranges | undefined;
  /** Undefined if this part has nothing to do with fleet addresses. */
  readonly mesh: MeshInformers | undefined;
  /** Undefined if this part does not install them. */
  readonly nodeAgents: NodeAgents | undefined;
  /** What the hub says of the fleet, wherever it says it. */
  readonly fleet: FleetState;
  /** Returns true if the InternalMemberCluster was seen since the program began, and no deletion of it was reported since. */
  readonly hadInternalMember: () => boolean;
  /** What is placed on it, in the mailbox; undefined if this program does not apply it. */
  readonly works: Informer<Work> | undefined;
  /** Why this program cannot apply it. */
  readonly placing: PlacingProblems;
  /** Undefined: health rules of placements are not evaluated. */
  readonly compileHealth: CompileHealth | undefined;
  /** Whether it reports the namespaces of the cluster. */
  readonly collectsNamespaces: boolean;
  /** Image of Plans of the system-upgrade-controller, without a tag. Undefined: by the version. */
  readonly upgradeImage: string | undefined;
  /** How others reach the API server of this cluster. Undefined: not known. */
  readonly address: ClusterAddress | undefined;
  readonly events: EventRecorder;
  readonly stopwatch: Stopwatch;
  /** Whether new pods wait for the agents of their nodes. */
  readonly hasStartupTaint: boolean;
  /** Beginnings of the annotations that a MultiClusterService passes on to its load balancer. */
  readonly passOn: readonly string[];
  /** The creator of ServiceImports: the agent for each service of the fleet, or users for those that they want. */
  readonly imports: ImportCreator;
  readonly deps: RuntimeDeps;
}

/**
 * What the hub wants of this member. "none": its InternalMemberCluster is absent, so nothing is changed; a hub that lost its
 * data must not empty the fleet.
 */
export type Membership = "join" | "leave" | "none";

export function membershipOf(session: Session): Membership {
  const internalMember = internalMemberOf(session);
  if (internalMember === undefined) return isMemberByNamespace(session) ? "join" : "none";
  switch (internalMember.spec.state) {
    case "Join":
      return "join";
    case "Leave":
      return "leave";
    default:
      return "none";
  }
}

/** What becomes of placed objects when the cluster leaves. */
export function placedOnLeave(session: Session): PlacedOnLeave {
  return internalMemberOf(session)?.spec.placed ?? "Keep";
}

/** What of it deals with the hub alone. */
export type HubSession = Pick<Session, "cluster" | "part" | "hub" | "deps" | "hadInternalMember"> & {
  readonly mailbox: Pick<Session["mailbox"], "internalMembers">;
};

/** Returns true for a legacy hub, which its InternalMemberCluster shows: it receives none of Fairlead's extensions. */
export function isLegacyHub(session: HubSession): boolean {
  const internalMember = internalMemberOf(session);
  return internalMember === undefined ? isMemberByNamespace(session) : isLegacy(internalMember);
}

function internalMemberOf({ mailbox, cluster }: HubSession): InternalMemberCluster | undefined {
  return mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
}

/** fleet-networking without KubeFleet has no InternalMemberClusters: a cluster with a mailbox is in the fleet. */
function isMemberByNamespace({ part, hadInternalMember }: HubSession): boolean {
  return part.isFleetOnly === true && !hadInternalMember();
}

/** Returns true if a legacy hub wrote the object. */
export function isLegacy({ spec }: InternalMemberCluster): boolean {
  return spec.leaseDurationSeconds === undefined;
}

/** Returns true if the fields of the InternalMemberCluster changed that decide about membership. */
export function isMembershipChanged({ before, after }: Change<InternalMemberCluster>): boolean {
  const facts = (it: InternalMemberCluster | undefined): string =>
    it === undefined ? "" : `${it.spec.state} ${it.spec.placed} ${isLegacy(it)} ${it.spec.network?.mode}`;
  return facts(before) !== facts(after);
}

/** Whether an object came or went. */
export function isPresenceChanged({ before, after }: Change<KubeObject>): boolean {
  return (before === undefined) !== (after === undefined);
}
