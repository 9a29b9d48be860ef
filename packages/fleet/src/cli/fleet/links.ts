import { CUT_OFF_ANNOTATION, MAX_REFUSED, REFUSED_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { type ClusterPath, hasPath } from "./paths.ts";

/** Links between members that pass nothing, as the members report. Pure. */

/** The members whose connections to a cluster's endpoints of a service are refused, by "cluster/namespace/name". */
export function refusedBy(
  leases: readonly Lease[],
  members: ReadonlySet<string>,
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { metadata } of leases) {
    const { namespace, name, annotations } = metadata;
    if (!members.has(name) || namespace !== mailboxOf(name)) continue;
    const keys = (annotations?.[REFUSED_ANNOTATION] ?? "").split(",", MAX_REFUSED);
    for (const key of new Set(keys)) {
      const names = found.get(key) ?? [];
      names.push(name);
      found.set(key, names);
    }
  }
  return found;
}

export interface CutLink {
  /** The member that reports it. */
  readonly from: string;
  readonly to: string;
  /** How it is known. */
  readonly by: "endpoints" | "tunnels";
}

/** In flat networks: no endpoint of the other cluster answers, although some have. */
export function cutOffIn(leases: readonly Lease[], members: ReadonlySet<string>): readonly CutLink[] {
  return leases
    .filter(({ metadata: { namespace, name } }) => members.has(name) && namespace === mailboxOf(name))
    .flatMap(({ metadata: { name, annotations } }) =>
      (annotations?.[CUT_OFF_ANNOTATION] ?? "")
        .split(",")
        .flatMap((to) => (members.has(to) ? [{ from: name, to, by: "endpoints" as const }] : [])),
    );
}

/** @param members - Those that renew their Leases: what others last said is old, and what is wrong with these is known. */
export function cutLinks(
  leases: readonly Lease[],
  paths: readonly ClusterPath[],
  members: ReadonlySet<string>,
): readonly CutLink[] {
  const silent = paths
    .filter((it) => it.tunnels.length > 0 && !hasPath(it) && members.has(it.from) && members.has(it.to))
    .map(({ from, to }) => ({ from, to, by: "tunnels" as const }));
  return [...cutOffIn(leases, members), ...silent].toSorted(
    (a, b) => byNaturalText(a.from, b.from) || byNaturalText(a.to, b.to),
  );
}

/** One line, with what to do. */
export function describeLink({ from, to, by }: CutLink): string {
  return by === "endpoints"
    ? `${from} to ${to}: no endpoint answers any more, and both reach the hub: the link between them is cut; check routes and firewalls`
    : `${from} to ${to}: no tunnel is answered, and both reach the hub: the link between their gateways is cut, or no gateway of ${to} runs; check UDP between them, and see "fairlead status --paths -o wide"`;
}
