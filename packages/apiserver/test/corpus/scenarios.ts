import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Scenario } from "./scenario.ts";

const FOLDER = join(import.meta.dirname, "scenarios");

/** Every scenario of every file in scenarios/. */
export async function loadScenarios(): Promise<readonly Scenario[]> {
  const files = (await readdir(FOLDER, { recursive: true })).filter((it) => it.endsWith(".ts")).toSorted();
  const modules = await Promise.all(
    files.map((it) => import(join(FOLDER, it)) as Promise<{ scenarios?: unknown }>),
  );
  return modules.flatMap(({ scenarios }, index) => {
    if (!Array.isArray(scenarios)) throw new Error(`scenarios/${files[index]} exports no scenarios`);
    return scenarios as Scenario[];
  });
}
