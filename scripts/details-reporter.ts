/** Keeps what a run of tests did in a file, test by test, and prints which tests took longest. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Below the root of the checkout; ignored by git. */
const FOLDER = "reports";
const SLOWEST = 10;

export class DetailsReporter implements Reporter {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const files = modules.toSorted((a, b) => b.diagnostic().duration - a.diagnostic().duration);
    const slowest = files
      .flatMap((it) => [...it.children.allTests()])
      .toSorted((a, b) => durationOf(b) - durationOf(a))
      .slice(0, SLOWEST);
    if (slowest.length === 0) return;
    const projects = new Set(files.map((it) => it.project.name));
    const file = join(FOLDER, `${[...projects].toSorted().join("-")}.txt`);
    mkdirSync(join(this.#root, FOLDER), { recursive: true });
    writeFileSync(join(this.#root, file), `${files.flatMap(detailsOf).join("\n")}\n`);
    const lines = slowest.map((it) => `${timeOf(it)}  ${it.module.relativeModuleId} > ${it.fullName}`);
    process.stdout.write(`\n Slowest tests (all: ${file})\n${lines.join("\n")}\n`);
  }
}

function detailsOf(module: TestModule): readonly string[] {
  const tests = [...module.children.allTests()];
  const took = `${seconds(module.diagnostic().duration)}  ${module.project.name} ${module.relativeModuleId}`;
  return [took, ...tests.map((it) => `${timeOf(it)}    ${it.result().state} ${it.fullName}`)];
}

const durationOf = (test: TestCase): number => test.diagnostic()?.duration ?? 0;
const timeOf = (test: TestCase): string => seconds(durationOf(test));
const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`.padStart(9);
