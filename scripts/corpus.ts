/**
 * Plays the corpus (packages/apiserver/test/corpus/README.md) against an API server.
 *
 *     node scripts/corpus.ts record  [--kubeconfig FILE] [AREA[/TITLE]...]   write what a real kube-apiserver answers
 *     node scripts/corpus.ts compare [--kubeconfig FILE] [AREA[/TITLE]...]   print where a server answers otherwise
 *     node scripts/corpus.ts mutate  [--kubeconfig FILE] [--seed N] [--count N]   send changed objects of all kinds to it and to ours
 *     node scripts/corpus.ts crds    [--kubeconfig FILE] [--seed N] [--count N] [FILE...]   the same with objects of the kinds that files define
 *
 * Without a kubeconfig, the kube-apiserver and etcd that KUBEBUILDER_ASSETS names are started. An argument selects by how `area/title` begins.
 * Without files, the definitions are those of docs/reference/crds.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { parseAllDocuments } from "yaml";
import { isObject } from "@fairlead/base/json.ts";
import { startApiServer } from "../packages/apiserver/src/server.ts";
import { startRealServer } from "../packages/apiserver/test/real-server.ts";
import { differences, judge } from "../packages/apiserver/test/corpus/compare.ts";
import {
  type CustomDefinition,
  customScenarios,
} from "../packages/apiserver/test/corpus/custom-mutations.ts";
import { explain } from "../packages/apiserver/test/corpus/explained.ts";
import { mutationScenarios } from "../packages/apiserver/test/corpus/mutations.ts";
import type { Answer } from "../packages/apiserver/test/corpus/play.ts";
import { playAll } from "../packages/apiserver/test/corpus/play-all.ts";
import { readRecording, writeRecording } from "../packages/apiserver/test/corpus/recording.ts";
import { area as inArea, type Scenario } from "../packages/apiserver/test/corpus/scenario.ts";
import { loadScenarios } from "../packages/apiserver/test/corpus/scenarios.ts";
import { SERVICE_RANGES } from "../packages/apiserver/test/corpus/tokens.ts";
import { Target } from "../packages/apiserver/test/corpus/target.ts";

async function record(scenarios: readonly Scenario[], target: Target): Promise<boolean> {
  const server = await versionOf(target);
  let failed = 0;
  for (const [scenario, playing] of playAll(scenarios, target)) {
    try {
      await writeRecording(scenario, { server, answers: await playing });
    } catch (error) {
      failed++;
      console.log(
        `${scenario.area}/${scenario.title}: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
  console.log(`recorded ${scenarios.length - failed} of ${scenarios.length} scenarios of ${server}`);
  return failed === 0;
}

interface Tally {
  cases: number;
  differing: number;
}

async function compare(scenarios: readonly Scenario[], target: Target): Promise<boolean> {
  const tallies = new Map<string, Tally>();
  for (const [scenario, playing] of playAll(scenarios, target)) {
    const tally = tallies.get(scenario.area) ?? { cases: 0, differing: 0 };
    tallies.set(scenario.area, tally);
    const recording = await readRecording(scenario);
    const lines = await playing.then(
      (answers) => judge(scenario, differences(recording?.answers ?? [], answers)).unexpected,
      (error: unknown) => [String(error)],
    );
    tally.cases += recording?.answers.length ?? 0;
    tally.differing += new Set(lines.map((it) => it.split(" ", 1)[0])).size;
    if (lines.length > 0) console.log(`${scenario.area}/${scenario.title}\n  ${lines.join("\n  ")}`);
  }
  for (const [area, { cases, differing }] of tallies)
    console.log(`${area.padEnd(24)} ${cases} cases, ${differing} differ`);
  const sum = [...tallies.values()];
  const differing = sum.reduce((total, it) => total + it.differing, 0);
  console.log(
    `${"total".padEnd(24)} ${sum.reduce((total, it) => total + it.cases, 0)} cases, ${differing} differ`,
  );
  return differing === 0;
}

/** Requests made by chance: prints what a real server and ours answer differently, but for what the documents explain. */
async function compareByChance(scenarios: readonly Scenario[], real: Target): Promise<boolean> {
  const dataDir = await mkdtemp(join(tmpdir(), "corpus-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(dataDir, { recursive: true, force: true }));
  const server = await startApiServer({ dataDir, journal: "none", serviceRanges: SERVICE_RANGES });
  stack.defer(() => server.close());
  const ours = stack.use(await Target.fromKubeconfig(server.kubeconfig));
  const [theirs, own] = [playAll(scenarios, real), playAll(scenarios, ours)];
  const counts = new Counts();
  for (const scenario of scenarios) {
    try {
      const [recorded, answers] = [await theirs.get(scenario), await own.get(scenario)];
      counts.add(scenario.title, recorded ?? [], answers ?? []);
    } catch (error) {
      counts.failed++;
      console.log(`${scenario.title}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  console.log(counts.text);
  return counts.unexplained === 0 && counts.failed === 0;
}

class Counts {
  /** Scenarios that could not be played. */
  failed = 0;
  unexplained = 0;
  #requests = 0;
  #sameStatus = 0;
  #same = 0;
  readonly #reasons = new Map<string, number>();

  add(title: string, recorded: readonly Answer[], answers: readonly Answer[]): void {
    for (const [index, answer] of recorded.entries()) {
      const other = answers[index];
      if (other === undefined) continue;
      this.#requests++;
      if (answer.status === other.status) this.#sameStatus++;
      const lines = differences([answer], [other]);
      const reason = lines.length === 0 ? undefined : explain(lines);
      if (lines.length === 0) this.#same++;
      else if (reason !== undefined) this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
      else {
        this.unexplained++;
        console.log(`${title}, request ${index + 1}\n  ${lines.join("\n  ")}`);
      }
    }
  }

  get text(): string {
    const share = (count: number): string => `${count} (${((100 * count) / this.#requests).toFixed(2)} %)`;
    const reasons = [...this.#reasons].map(([reason, count]) => `\n  ${count} explained by "${reason}"`);
    return `${this.#requests} requests: ${share(this.#sameStatus)} have the same status, ${share(this.#same)} the same answer${reasons.join("")}\n  ${this.unexplained} not explained`;
  }
}

const REFERENCE = join(import.meta.dirname, "../docs/reference/crds");

/** The CustomResourceDefinitions in files; other documents do not count. */
async function readDefinitions(files: readonly string[]): Promise<readonly CustomDefinition[]> {
  const paths = files.length > 0 ? files : (await readdir(REFERENCE)).map((it) => join(REFERENCE, it));
  const texts = await Promise.all(paths.map((it) => readFile(it, "utf8")));
  return texts
    .flatMap((text) => parseAllDocuments(text))
    .map((it): unknown => it.toJS())
    .filter(isDefinition);
}

function isDefinition(value: unknown): value is CustomDefinition {
  return (
    isObject(value) &&
    value["kind"] === "CustomResourceDefinition" &&
    isObject(value["spec"]) &&
    "group" in value["spec"]
  );
}

async function versionOf(target: Target): Promise<string> {
  const incoming = await target.open({ method: "GET", path: "/version", headers: {} });
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return (JSON.parse(Buffer.concat(chunks).toString("utf8")) as { gitVersion: string }).gitVersion;
}

const DEFAULT_COUNT: Readonly<Record<string, number>> = { mutate: 60, crds: 20 };

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    options: {
      kubeconfig: { type: "string" },
      seed: { type: "string", default: "1" },
      /** Requests for each built-in kind; objects of each version of a custom kind. */
      count: { type: "string" },
    },
    allowPositionals: true,
  });
  const [command, ...rest] = positionals;
  const commands = ["record", "compare", "mutate", "crds"];
  if (command === undefined || !commands.includes(command)) {
    console.log("usage: node scripts/corpus.ts record|compare [--kubeconfig FILE] [AREA[/TITLE]...]");
    console.log("       node scripts/corpus.ts mutate [--kubeconfig FILE] [--seed N] [--count N]");
    console.log("       node scripts/corpus.ts crds [--kubeconfig FILE] [--seed N] [--count N] [FILE...]");
    return false;
  }
  await using stack = new AsyncDisposableStack();
  const kubeconfig = values.kubeconfig ?? stack.use(await startRealServer()).kubeconfig;
  const target = stack.use(await Target.fromKubeconfig(kubeconfig));
  const options = { seed: Number(values.seed), count: Number(values.count ?? DEFAULT_COUNT[command] ?? 0) };
  if (command === "mutate") return await compareByChance(mutationScenarios(options), target);
  if (command === "crds") {
    const scenarios = customScenarios(await readDefinitions(rest), options);
    return await compareByChance(inArea("crds", scenarios), target);
  }
  const scenarios = (await loadScenarios()).filter(
    (it) => rest.length === 0 || rest.some((start) => `${it.area}/${it.title}`.startsWith(start)),
  );
  return await (command === "record" ? record(scenarios, target) : compare(scenarios, target));
}

if (!(await main())) process.exitCode = 1;
