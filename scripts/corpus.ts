/**
 * Plays the corpus (packages/apiserver/test/corpus/README.md) against an API server.
 *
 *     node scripts/corpus.ts record  [--kubeconfig FILE] [AREA[/TITLE]...]   write what a real kube-apiserver answers
 *     node scripts/corpus.ts compare [--kubeconfig FILE] [AREA[/TITLE]...]   print where a server answers otherwise
 *
 * Without a kubeconfig, the kube-apiserver and etcd that KUBEBUILDER_ASSETS names are started. An argument selects by how `area/title` begins.
 */
import { parseArgs } from "node:util";
import { startRealServer } from "../packages/apiserver/test/real-server.ts";
import { differences, judge } from "../packages/apiserver/test/corpus/compare.ts";
import { playAll } from "../packages/apiserver/test/corpus/play-all.ts";
import { readRecording, writeRecording } from "../packages/apiserver/test/corpus/recording.ts";
import type { Scenario } from "../packages/apiserver/test/corpus/scenario.ts";
import { loadScenarios } from "../packages/apiserver/test/corpus/scenarios.ts";
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

async function versionOf(target: Target): Promise<string> {
  const incoming = await target.open({ method: "GET", path: "/version", headers: {} });
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return (JSON.parse(Buffer.concat(chunks).toString("utf8")) as { gitVersion: string }).gitVersion;
}

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    options: { kubeconfig: { type: "string" } },
    allowPositionals: true,
  });
  const [command, ...areas] = positionals;
  if (command !== "record" && command !== "compare") {
    console.log("usage: node scripts/corpus.ts record|compare [--kubeconfig FILE] [AREA[/TITLE]...]");
    return false;
  }
  const all = await loadScenarios();
  const scenarios = all.filter(
    (it) => areas.length === 0 || areas.some((start) => `${it.area}/${it.title}`.startsWith(start)),
  );
  await using stack = new AsyncDisposableStack();
  const kubeconfig = values.kubeconfig ?? stack.use(await startRealServer()).kubeconfig;
  const target = stack.use(await Target.fromKubeconfig(kubeconfig));
  return await (command === "record" ? record(scenarios, target) : compare(scenarios, target));
}

if (!(await main())) process.exitCode = 1;
