/** Figures of several checkouts, as medians and ratios. */

import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { quantile } from "../lab/lab.ts";

/** Values by name; the name ends with the unit. */
export type Figures = ReadonlyMap<string, number>;

/** All runs of a checkout: the figures by name, in the order of the runs. */
export type Runs = Map<string, number[]>;

export function addRun(runs: Runs, figures: Figures): void {
  for (const [name, value] of figures) runs.set(name, [...(runs.get(name) ?? []), value]);
}

/** @param all - Runs by the checkout's name; this checkout is the last one. Ratios are its medians to those of the others. */
export function renderRuns(all: ReadonlyMap<string, Runs>): string {
  const [own = new Map<string, number[]>()] = [...all.values()].slice(-1);
  const others = [...all].slice(0, -1);
  const rows = [...own].map(([name, values]) => [
    name,
    shown(values),
    ...others.flatMap(([, runs]) => {
      const before = runs.get(name) ?? [];
      const ratio = quantile(values, 0.5) / quantile(before, 0.5);
      return [shown(before), Number.isFinite(ratio) ? ratio.toFixed(2) : "-"];
    }),
  ]);
  const heads = ["MEDIAN [LEAST-MOST]", "NOW", ...others.flatMap(([name]) => [name, "RATIO"])];
  return renderTable(
    heads.map((head, at) => ({ head, cell: (row: string[]) => row[at] ?? "" })),
    rows,
  );
}

function shown(values: readonly number[]): string {
  if (values.length === 0) return "-";
  const [median, least, most] = [quantile(values, 0.5), Math.min(...values), Math.max(...values)].map((it) =>
    it.toFixed(it < 20 ? 1 : 0),
  );
  return least === most ? `${median}` : `${median} [${least}-${most}]`;
}
