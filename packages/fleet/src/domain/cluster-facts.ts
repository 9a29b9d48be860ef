import type { MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type OriginFacts, originOf, ORIGINS } from "./cluster-origin.ts";
import { formatSupport, ownSupport, type Support } from "./kubernetes-support.ts";

/** Properties of a MemberCluster besides its ranges: what its agent finds out about the cluster. Pure. */

/** Of the API server, such as "v1.34.1". */
export const KUBERNETES_PROPERTY = "fairlead.dev/kubernetes-version";
/** The network plugin, if it enforces network policies itself. */
export const CNI_PROPERTY = "fairlead.dev/cni";
/** Another program that connects clusters. */
export const OTHER_MESH_PROPERTY = "fairlead.dev/other-mesh";

/** Versions of `fairlead member`, and of `fairlead node` on the nodes, with the versions of Kubernetes that each supports. */
export const MEMBER_SUPPORT_PROPERTY = "fairlead.dev/member-support";
export const NODE_SUPPORT_PROPERTY = "fairlead.dev/node-support";

export const FACTS = [
  KUBERNETES_PROPERTY,
  CNI_PROPERTY,
  OTHER_MESH_PROPERTY,
  MEMBER_SUPPORT_PROPERTY,
  NODE_SUPPORT_PROPERTY,
  ...ORIGINS,
] as const;
type Fact = (typeof FACTS)[number];
type Properties = NonNullable<MemberClusterStatus["properties"]>;

/** What a cluster shows of itself. */
export interface Surroundings {
  /** `gitVersion` of its API server. */
  readonly version: string | undefined;
  /** Its API groups. */
  readonly groups: ReadonlySet<string>;
  /** Plurals of the group cilium.io, which has network policies without Cilium, too. */
  readonly ciliumKinds: ReadonlySet<string>;
  /** Whether it has the Service of Cilium Cluster Mesh. */
  readonly hasCiliumMesh: boolean;
  /** What the agents of nodes report. */
  readonly nodeSupport: readonly Support[];
  readonly nodes: OriginFacts["nodes"];
}

export function factsOf({
  version,
  groups,
  ciliumKinds,
  hasCiliumMesh,
  nodeSupport,
  nodes,
}: Surroundings): ReadonlyMap<Fact, string> {
  const engine = ciliumKinds.has("ciliumnodes")
    ? "Cilium"
    : groups.has("crd.projectcalico.org") || groups.has("projectcalico.org")
      ? "Calico"
      : groups.has("crd.antrea.io")
        ? "Antrea"
        : undefined;
  const meshes = [
    ...(hasCiliumMesh ? ["Cilium Cluster Mesh"] : []),
    ...(groups.has("submariner.io") ? ["Submariner"] : []),
  ];
  return new Map<Fact, string>([
    ...(version === undefined ? [] : [[KUBERNETES_PROPERTY, version] as const]),
    ...(engine === undefined ? [] : [[CNI_PROPERTY, engine] as const]),
    ...(meshes.length === 0 ? [] : [[OTHER_MESH_PROPERTY, meshes.join(", ")] as const]),
    [MEMBER_SUPPORT_PROPERTY, formatSupport([ownSupport("member")])],
    ...(nodeSupport.length === 0 ? [] : [[NODE_SUPPORT_PROPERTY, formatSupport(nodeSupport)] as const]),
    ...originOf({ nodes, version, groups }),
  ]);
}

/**
 * The change of the reported properties; null removes one. What was observed before stays as it is.
 *
 * @param now - RFC 3339.
 */
export function factProperties(
  facts: ReadonlyMap<Fact, string>,
  before: Properties | undefined,
  now: string,
): Record<string, Properties[string] | null> {
  const change: Record<string, Properties[string] | null> = {};
  for (const name of FACTS) {
    const [value, known] = [facts.get(name), before?.[name]];
    if (value !== undefined) change[name] = known?.value === value ? known : { value, observationTime: now };
    else if (known !== undefined) change[name] = null;
  }
  return change;
}

/** Longest text that the hub keeps. Unit: characters. */
const MAX_FACT = 64;
/** The same for a list of versions. */
const MAX_SUPPORT = 512;
const FACT = /^[A-Za-z0-9][-+.,_ A-Za-z0-9]*$/;

/** Of what a member reports, the facts that the hub keeps. */
export function reportedFacts(reported: Properties | undefined): Properties {
  return Object.fromEntries(
    FACTS.flatMap((name) => {
      const property = reported?.[name];
      const isSound =
        property !== undefined && property.value.length <= longest(name) && FACT.test(property.value);
      return isSound ? [[name, property]] : [];
    }),
  );
}

function longest(name: Fact): number {
  return name === NODE_SUPPORT_PROPERTY || name === MEMBER_SUPPORT_PROPERTY ? MAX_SUPPORT : MAX_FACT;
}
