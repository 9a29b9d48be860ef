/**
 * Compares this checkout with other commits: each is installed and built in a folder for temporary files, and all are measured in turns.
 * Processor time (user and system time of each program, with children) and memory (PSS) are those to compare on a machine that has other
 * work, too; wall time is printed for quiet ones. Prints medians and their ratio, and writes what each run gave to a file.
 *
 *   npm run bench -- against COMMIT [COMMIT…] [--rounds 5] [--only start,requests,change,lab] [--output FILE]
 */
import { writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { measureChange } from "./against/change.ts";
import { checkOut, type Checkout, OWN } from "./against/checkout.ts";
import { addRun, type Figures, renderRuns, type Runs } from "./against/figures.ts";
import { measureLab } from "./against/lab.ts";
import { countRequests, measureStart } from "./against/start.ts";

interface Part {
  readonly name: string;
  /** The most rounds: counts are the same each time. */
  readonly rounds?: number;
  readonly measure: (checkout: Checkout) => Promise<Figures>;
}

const PARTS: readonly Part[] = [
  { name: "requests", rounds: 1, measure: countRequests },
  { name: "start", measure: measureStart },
  { name: "change", measure: measureChange },
  { name: "lab", measure: measureLab },
];

export async function run(argv: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      rounds: { type: "string", default: "5" },
      only: { type: "string", default: PARTS.map((it) => it.name).join() },
      output: { type: "string" },
    },
  });
  const only = values.only.split(",");
  const unknown = only.find((name) => PARTS.every((it) => it.name !== name));
  if (unknown !== undefined) throw new Error(`--only: there is no part ${unknown}`);
  const checkouts: Checkout[] = [];
  for (const commit of positionals) checkouts.push(await checkOut(commit));
  checkouts.push(OWN);
  const all = new Map<string, Runs>(checkouts.map((it) => [it.name, new Map()]));
  const loads: number[] = [];
  for (const part of PARTS.filter((it) => only.includes(it.name)))
    for (let round = 0; round < Math.min(Number(values.rounds), part.rounds ?? Infinity); round += 1)
      for (const checkout of checkouts) {
        loads.push(loadavg()[0] ?? 0);
        const figures = await measureOr(part, checkout);
        addRun(all.get(checkout.name) ?? new Map<string, number[]>(), figures);
      }
  const load = `${cpus().length} processors, load ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}`;
  console.log(`${load}\n${renderRuns(all)}`);
  if (values.output === undefined) return;
  const raw = Object.fromEntries([...all].map(([name, runs]) => [name, Object.fromEntries(runs)]));
  await writeFile(
    values.output,
    `${JSON.stringify({ at: new Date().toISOString(), load, runs: raw }, null, 2)}\n`,
  );
}

/** Reports a run that fails, and leaves it out: the others took long. */
async function measureOr({ name, measure }: Part, checkout: Checkout): Promise<Figures> {
  try {
    return await measure(checkout);
  } catch (error) {
    console.error(`${name} of ${checkout.name} failed:`, error);
    return new Map();
  }
}
