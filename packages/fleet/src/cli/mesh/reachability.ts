import { type Result } from "../verify/probes.ts";
import type { MeshFinding } from "./checks.ts";

/** What probes between clusters found, before these become members of one network. Pure. */

const ADVICE = "check routes and firewalls between the clusters, or use network.mode parallel";

/** One finding for all that failed from one cluster to another for the same reason. */
export function reachability(results: readonly Result[]): readonly MeshFinding[] {
  const failed = results.filter((it) => it.status === "failed");
  const alike = Map.groupBy(failed, (it) =>
    JSON.stringify([it.from, it.to, it.check === "import", it.detail]),
  );
  return [...alike.values()].flatMap((all): MeshFinding[] => {
    const [first] = all;
    if (first === undefined) return [];
    const { from, to, check, detail } = first;
    const distinct = (of: readonly string[]): string => [...new Set(of)].toSorted().join(" and ");
    const over = `${distinct(all.map((it) => it.check))} over ${distinct(all.map((it) => it.family))}`;
    // The pods themselves could not run.
    const message =
      check === "import"
        ? `no packets tried from pods of ${from} to pods of ${to}: ${detail}`
        : `${over} from pods of ${from} to pods of ${to}: ${detail}; ${ADVICE}`;
    return [{ check: "reachability", status: "failed", message }];
  });
}
