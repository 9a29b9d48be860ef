import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { isVersion, NODE_AGENTS_CONDITION } from "#api/fairlead.dev/node-agents.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  LONG_TERM_SUPPORT_LABEL,
  NODE_OS_SCHEDULE_ANNOTATION,
  REGION_LABELS,
  type ReleaseCatalog,
  UPDATE_GROUP_LABEL,
  UPGRADE_SCHEDULE_ANNOTATION,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";

import { MEMBER_SUPPORT_PROPERTY, NODE_SUPPORT_PROPERTY } from "#domain/cluster-facts.ts";
import type { ProfileVersion } from "#domain/components.ts";
import { parseSupport, type ReleaseProgram, type Support } from "#domain/kubernetes-support.ts";

/** What update runs read of a MemberCluster. */
export interface UpdateMember {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly group: string | undefined;
  readonly region: string | undefined;
  readonly hasLongTermSupport: boolean;
  /** The engine; undefined if none is configured. */
  readonly upgrader: string | undefined;
  /** Maintenance windows, as text. */
  readonly schedules: { readonly kubernetes: string | undefined; readonly nodeOS: string | undefined };
  /** Our programs in the cluster, as they report. */
  readonly programs: readonly ({ readonly program: ReleaseProgram } & Support)[];
  /** The agents of its nodes, as far as its own agent installs them. */
  readonly nodeAgents:
    | {
        /** The version that runs on all nodes. */
        readonly installed: string | undefined;
        readonly reason: string;
        readonly message: string;
      }
    | undefined;
  /** The ClusterMeshProfile that it belongs to, with the version of node agents that is in force. */
  readonly profile: ProfileVersion | undefined;
}

/** @param profile - The one that the member belongs to, with the settings in force. */
export function updateMember(
  { metadata, status }: MemberCluster,
  profile: ClusterMeshProfile | undefined,
): UpdateMember {
  const { name, labels = {}, annotations = {} } = metadata;
  const region = REGION_LABELS.map((it) => labels[it]).find((it) => it !== undefined);
  return {
    name,
    labels,
    group: labels[UPDATE_GROUP_LABEL],
    region,
    hasLongTermSupport: labels[LONG_TERM_SUPPORT_LABEL] === "true",
    upgrader: annotations[UPGRADER_ANNOTATION],
    schedules: {
      kubernetes: annotations[UPGRADE_SCHEDULE_ANNOTATION],
      nodeOS: annotations[NODE_OS_SCHEDULE_ANNOTATION],
    },
    programs: (["member", "node"] as const).flatMap((program) => {
      const property = program === "member" ? MEMBER_SUPPORT_PROPERTY : NODE_SUPPORT_PROPERTY;
      return parseSupport(status?.properties?.[property]?.value).map((it) => ({ program, ...it }));
    }),
    nodeAgents: nodeAgentsOf(status),
    profile: profile && { name: profile.metadata.name, version: profile.spec.version },
  };
}

function nodeAgentsOf(status: MemberCluster["status"]): UpdateMember["nodeAgents"] {
  const [condition] = (status?.agentStatus ?? []).flatMap(
    (it) => findCondition(it.conditions, NODE_AGENTS_CONDITION) ?? [],
  );
  if (condition === undefined) return undefined;
  const { reason, message } = condition;
  const [version = ""] = message.split(" ", 1);
  return {
    installed: condition.status === "True" && isVersion(version) ? version : undefined,
    reason,
    message,
  };
}

type Kubernetes = NonNullable<ReleaseCatalog["spec"]["kubernetesVersions"]>[number];
type Image = NonNullable<ReleaseCatalog["spec"]["nodeImages"]>[number];

/** What is available in a region. Undefined: no catalog is about it, so nothing is known and nothing is held back. */
export interface Releases {
  readonly kubernetes: readonly Kubernetes[] | undefined;
  readonly images: readonly Image[] | undefined;
  /** Versions of our own programs. Those that are not in it are known by their release. */
  readonly components: readonly Support[];
}

export function releasesIn(catalogs: Iterable<ReleaseCatalog>, region: string | undefined): Releases {
  const specs = [...catalogs]
    .map((it) => it.spec)
    .filter((it) => it.region === undefined || it.region === region);
  const kubernetes = specs.flatMap((it) => it.kubernetesVersions ?? []);
  const images = specs.flatMap((it) => it.nodeImages ?? []);
  return {
    kubernetes: specs.some((it) => it.kubernetesVersions !== undefined) ? kubernetes : undefined,
    images: specs.some((it) => it.nodeImages !== undefined) ? images : undefined,
    components: specs.flatMap((it) => it.components ?? []),
  };
}
