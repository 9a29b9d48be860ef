/**
 * Plays the corpus (packages/apiserver/test/corpus/README.md) against an API server.
 *
 *     node scripts/corpus.ts record  [--kubeconfig FILE] [AREA[/TITLE]...]   write what a real kube-apiserver answers
 *     node scripts/corpus.ts compare [--kubeconfig FILE] [AREA[/TITLE]...]   print where a server answers otherwise
 *     node scripts/corpus.ts mutate  [--kubeconfig FILE] [--seed N] [--count N]   send changed objects of all kinds to it and to ours
 *
 * Without a kubeconfig, the kube-apiserver and etcd that KUBEBUILDER_ASSETS names are started. An argument selects by how `area/title` begins.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startApiServer } from "../packages/apiserver/src/server.ts";
import { startRealServer } from "../packages/apiserver/test/real-server.ts";
import { differences, judge } from "../packages/apiserver/test/corpus/compare.ts";
import { explain } from "../packages/apiserver/test/corpus/explained.ts";
import { type MutationOptions, mutationScenarios } from "../packages/apiserver/test/corpus/mutations.ts";
import { playAll } from "../packages/apiserver/test/corpus/play-all.ts";
import { readRecording, writeRecording } from "../packages/apiserver/test/corpus/recording.ts";
import type { Scenario } from "../packages/apiserver/test/corpus/scenario.ts";
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
async function mutate(options: MutationOptions, real: Target): Promise<boolean> {
  const dataDir = await mkdtemp(join(tmpdir(), "corpus-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(dataDir, { recursive: true, force: true }));
  const server = await startApiServer({ dataDir, journal: "none", serviceRanges: SERVICE_RANGES });
  stack.defer(() => server.close());
  const ours = stack.use(await Target.fromKubeconfig(server.kubeconfig));
  const scenarios = mutationScenarios(options);
  const [theirs, own] = [playAll(scenarios, real), playAll(scenarios, ours)];
  const counts = { requests: 0, "same status": 0, "same answer": 0, explained: 0 };
  for (const scenario of scenarios) {
    const [recorded, answers] = [await theirs.get(scenario), await own.get(scenario)];
    for (const [index, answer] of (recorded ?? []).entries()) {
      const other = answers?.[index];
      if (other === undefined) continue;
      const lines = differences([answer], [other]);
      counts.requests++;
      if (answer.status === other.status) counts["same status"]++;
      if (lines.length === 0) counts["same answer"]++;
      else if (explain(lines) !== undefined) counts.explained++;
      else console.log(`${scenario.title}, request ${index + 1}\n  ${lines.join("\n  ")}`);
    }
  }
  console.log(`seed ${options.seed}: ${JSON.stringify(counts)}`);
  return counts["same answer"] + counts.explained === counts.requests;
}

async function versionOf(target: Target): Promise<string> {
  const incoming = await target.open({ method: "GET", path: "/version", headers: {} });
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return (JSON.parse(Buffer.concat(chunks).toString("utf8")) as { gitVersion: string }).gitVersion;
}

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    options: {
      kubeconfig: { type: "string" },
      seed: { type: "string", default: "1" },
      /** Of requests for each kind. */
      count: { type: "string", default: "60" },
    },
    allowPositionals: true,
  });
  const [command, ...areas] = positionals;
  if (command !== "record" && command !== "compare" && command !== "mutate") {
    console.log("usage: node scripts/corpus.ts record|compare [--kubeconfig FILE] [AREA[/TITLE]...]");
    console.log("       node scripts/corpus.ts mutate [--kubeconfig FILE] [--seed N] [--count N]");
    return false;
  }
  const all = await loadScenarios();
  const scenarios = all.filter(
    (it) => areas.length === 0 || areas.some((start) => `${it.area}/${it.title}`.startsWith(start)),
  );
  await using stack = new AsyncDisposableStack();
  const kubeconfig = values.kubeconfig ?? stack.use(await startRealServer()).kubeconfig;
  const target = stack.use(await Target.fromKubeconfig(kubeconfig));
  if (command === "mutate")
    return await mutate({ seed: Number(values.seed), count: Number(values.count) }, target);
  return await (command === "record" ? record(scenarios, target) : compare(scenarios, target));
}

if (!(await main())) process.exitCode = 1;
