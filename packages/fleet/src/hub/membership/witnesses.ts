import { LOST_CLUSTERS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import { parseLost, type Witnesses } from "#domain/lost-clusters.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { Change } from "@fairlead/kube/types.ts";

/** Whether endpoints of a member that is lost answer others, as these say in their Leases. Pure. */

/** The lost clusters of which a member says something else than before. */
export function lostIn({ before, after }: Pick<Change<Lease>, "before" | "after">): readonly string[] {
  const [was, is] = [before, after].map((it) => it?.metadata.annotations?.[LOST_CLUSTERS_ANNOTATION]);
  if (was === is) return [];
  return [...new Set([was, is].flatMap((it) => parseLost(it).map(({ cluster }) => cluster)))];
}

/** @param suspects - Their word is old. */
export function witnessesOf(
  suspect: string,
  leases: Iterable<Lease>,
  suspects: ReadonlyMap<string, unknown>,
): Witnesses {
  const said = [...leases].flatMap(({ metadata: { namespace, name, annotations } }) => {
    if (clusterOfMailbox(namespace) !== name || suspects.has(name)) return [];
    const lost = parseLost(annotations?.[LOST_CLUSTERS_ANNOTATION]).find((it) => it.cluster === suspect);
    return lost === undefined ? [] : [{ name, answers: lost.answers }];
  });
  const those = (answers: boolean): readonly string[] =>
    said.flatMap((it) => (it.answers === answers ? [it.name] : [])).toSorted(byText);
  return { answered: those(true), unanswered: those(false) };
}
