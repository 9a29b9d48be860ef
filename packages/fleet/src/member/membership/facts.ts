import type { MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { factProperties, factsOf, type Surroundings } from "#domain/cluster-facts.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { nodeAgentsOf } from "../running-agents.ts";
import type { Session } from "../session.ts";

/** Of Cilium Cluster Mesh. */
const CILIUM_MESH = objectKey("kube-system", "clustermesh-apiserver");

/** What the cluster shows of itself, as a change of the reported properties. Discovery is open to every account. */
export async function planFacts(
  session: Session,
  before: MemberClusterStatus["properties"],
  at: { readonly now: string; readonly signal: AbortSignal },
): Promise<ReturnType<typeof factProperties>> {
  const { local, here } = session;
  const [version, groups, kinds] = await Promise.all([
    read(local, "/version", at.signal),
    read(local, "/apis", at.signal),
    read(local, "/apis/cilium.io/v2", at.signal),
  ]);
  const surroundings: Surroundings = {
    version: typeof version["gitVersion"] === "string" ? version["gitVersion"] : undefined,
    groups: namesIn(groups["groups"]),
    ciliumKinds: namesIn(kinds["resources"]),
    hasCiliumMesh: here.services.store.get(CILIUM_MESH) !== undefined,
    nodeSupport: nodeAgentsOf(session).support,
    nodes: [...(session.ranges?.nodes.store.list() ?? [])],
  };
  return factProperties(factsOf(surroundings), before, at.now);
}

/** An object without fields where there is no answer. */
async function read(
  client: KubeClient,
  path: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  const answer = await client.request("GET", path, undefined, { signal }).catch(() => {});
  return typeof answer === "object" && answer !== null ? (answer as Readonly<Record<string, unknown>>) : {};
}

function namesIn(list: unknown): ReadonlySet<string> {
  if (!Array.isArray(list)) return new Set();
  return new Set(
    list.flatMap((it: { readonly name?: unknown }) => (typeof it.name === "string" ? [it.name] : [])),
  );
}
