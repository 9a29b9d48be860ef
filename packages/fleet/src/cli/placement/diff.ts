import { oneLine } from "@fairlead/base/print.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { placementIn } from "./explain.ts";
import { changesBetween, type ObjectChange, renderChanges } from "./changes.ts";
import { type PlacementName, type PlacementOnHub, readPlacement, snapshotAt } from "./read.ts";
import { selectedNow } from "./selected.ts";

/** What would be placed, compared with what is, before it is. */

export interface DiffQuestion extends PlacementName {
  /** The placement as it is to be, whose selectors count. Undefined: as it is. */
  readonly file?: { readonly name: string; readonly text: string } | undefined;
  /** Index of a snapshot. Undefined: the latest. */
  readonly from: number | undefined;
  /** Index of a snapshot. Undefined: what is selected on the hub now. */
  readonly to: number | undefined;
}
export interface PlacementDiff {
  readonly from: string;
  readonly to: string;
  readonly changes: readonly ObjectChange[];
  /** That have something else than `to`, and would change. */
  readonly clusters: readonly string[];
}

export async function diffOnHub(
  hub: KubeClient,
  question: DiffQuestion,
  signal: AbortSignal,
): Promise<PlacementDiff> {
  const found = await readPlacement(hub, question, signal);
  const from = sideOf(found, question.from);
  const to =
    question.to === undefined
      ? {
          name: "the hub",
          objects: await selectedNow(hub, wantedOf(found, question), signal),
          index: undefined,
        }
      : sideOf(found, question.to);
  const changes = changesBetween(from.objects, to.objects);
  const having = found.snapshots.find((it) => it.index === to.index)?.clusters ?? [];
  const all = found.bindings.map((it) => it.spec.targetCluster).toSorted();
  const others = all.filter((it) => !having.includes(it));
  return { from: from.name, to: to.name, changes, clusters: changes.length === 0 ? [] : others };
}

function wantedOf({ placement, kind }: PlacementOnHub, { file, name }: DiffQuestion): Placement {
  if (file === undefined) return placement;
  const wanted = placementIn(file);
  if (wanted.kind === kind && wanted.metadata.name === name) return { ...placement, spec: wanted.spec };
  throw new FleetError(
    "OPTION_INVALID",
    `${file.name} has ${wanted.kind} ${wanted.metadata.name}, not ${kind} ${name}`,
  );
}

function sideOf(
  found: PlacementOnHub,
  index: number | undefined,
): { readonly name: string; readonly objects: readonly KubeObject[]; readonly index: number | undefined } {
  const latest = found.snapshots.find((it) => it.isLatest);
  const side = index === undefined ? latest : snapshotAt(found, index);
  if (side === undefined) return { name: "nothing", objects: [], index: undefined };
  return { name: `snapshot ${side.index}`, objects: side.objects, index: side.index };
}

export function renderDiff({ from, to, changes, clusters }: PlacementDiff): string {
  if (changes.length === 0) return `No differences between ${from} and ${to}.`;
  const count = (kind: ObjectChange["change"]): number => changes.filter((it) => it.change === kind).length;
  const moved = clusters.length === 0 ? "no cluster" : clusters.join(", ");
  return [
    oneLine(
      `From ${from} to ${to}: ${count("add")} added, ${count("change")} changed, ${count("remove")} removed; on ${moved}`,
    ),
    renderChanges(changes),
  ].join("\n");
}
