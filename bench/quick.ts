/**
 * The cost of a hub and its API server at their start, in memory and for a change, next to that of an earlier commit. It takes a few seconds, and
 * needs no build of that commit: its figures are recorded as multiples of what a bare Node process takes on the same machine, and so are the ones of now.
 * It fails if it cannot measure, and asserts no figure.
 *
 *   npm run bench -- quick [--record COMMIT] [--rounds 3]
 */
import { readFile, writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { measureBareNode } from "./against/bare.ts";
import { checkOut, OWN } from "./against/checkout.ts";
import { addRun, type Figures, type Runs } from "./against/figures.ts";
import { measureQuickly } from "./against/start.ts";
import { quantile } from "./lab/lab.ts";

const RECORDED = new URL("results/quick.json", import.meta.url);

/** Figures are multiples of a bare Node process. */
interface Recorded {
  readonly commit: string;
  readonly at: string;
  readonly load: string;
  readonly figures: Readonly<Record<string, number>>;
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { record: { type: "string" }, rounds: { type: "string", default: "3" } },
  });
  if (values.record === undefined) return show();
  const checkout = await checkOut(values.record);
  const runs: Runs = new Map();
  for (let at = 0; at < Number(values.rounds); at += 1)
    addRun(runs, (await measureAsMultiples(checkout.folder)).multiples);
  const figures = Object.fromEntries([...runs].map(([name, all]) => [name, round(quantile(all, 0.5))]));
  const recorded: Recorded = {
    commit: checkout.name,
    at: new Date().toISOString(),
    load: loadNow(),
    figures,
  };
  await writeFile(RECORDED, `${JSON.stringify(recorded, null, 2)}\n`);
}

async function show(): Promise<void> {
  const { figures, multiples } = await measureAsMultiples(OWN.folder);
  const recorded = JSON.parse(await readFile(RECORDED, "utf8")) as Recorded;
  const rows = [...figures].map(([name, value]) => {
    const [now, before] = [multiples.get(name) ?? NaN, recorded.figures[name] ?? NaN];
    return [name, value.toFixed(1), now.toFixed(2), before.toFixed(2), (now / before).toFixed(2)];
  });
  const heads = ["MEASURED ONCE", "NOW", "IN BARE NODES", recorded.commit, "NOW / THEN"];
  const columns = heads.map((head, at) => ({ head, cell: (row: string[]) => row[at] ?? "" }));
  console.log(`${loadNow()}; ${recorded.commit} was recorded with ${recorded.load}`);
  console.log(renderTable(columns, rows));
}

async function measureAsMultiples(
  folder: string,
): Promise<{ readonly figures: Figures; readonly multiples: Figures }> {
  const [bare, figures] = [await measureBareNode(), await measureQuickly(folder)];
  const limitOf = (name: string): number => (name.includes("PSS") ? bare.pss : bare.cpuMs);
  return { figures, multiples: new Map([...figures].map(([name, it]) => [name, it / limitOf(name)])) };
}

function loadNow(): string {
  return `${cpus().length} processors at a load of ${(loadavg()[0] ?? 0).toFixed(1)}`;
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
