import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { startApiServer } from "#server.ts";
import { ACCEPTED } from "./accepted.ts";
import { EXPLAINED } from "./explained.ts";
import { differences, judge } from "./compare.ts";
import { playAll } from "./play-all.ts";
import { type Recording, readRecording, recordingPath, strayRecordings } from "./recording.ts";
import type { Scenario } from "./scenario.ts";
import { loadScenarios } from "./scenarios.ts";
import { Target } from "./target.ts";
import { SERVICE_RANGES } from "./tokens.ts";

/** Our server answers as the recorded kube-apiserver did, but for what accepted.ts names. */

const scenarios = await loadScenarios();
const dataDir = await mkdtemp(join(tmpdir(), "corpus-"));
const server = await startApiServer({ dataDir, journal: "none", serviceRanges: SERVICE_RANGES });
const target = await Target.fromKubeconfig(server.kubeconfig);
const played = playAll(scenarios, target);

afterAll(async () => {
  target[Symbol.dispose]();
  await server.close();
  await rm(dataDir, { recursive: true, force: true });
});

describe.each([...new Set(scenarios.map((it) => it.area))])("%s", (area) => {
  it.each(scenarios.filter((it) => it.area === area))("$title", async (scenario) => {
    const recording = await readRecording(scenario);
    if (recording === undefined)
      throw new Error("not recorded yet: see packages/apiserver/test/corpus/README.md");
    const lines = await findings(scenario, recording);
    if (lines.length > 0) throw new Error(`real -> ours\n${lines.join("\n")}`);
  });
});

/** Differences to fix or to accept. */
async function findings(scenario: Scenario, recording: Recording): Promise<readonly string[]> {
  try {
    const answers = await played.get(scenario);
    const { unexpected, outdated } = judge(scenario, differences(recording.answers, answers ?? []));
    return [...unexpected, ...outdated.map((it) => `accepted, but no longer so: ${it}`)];
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

describe("the corpus", () => {
  it("has unique names of scenarios, and no recording without a scenario", async () => {
    const paths = scenarios.map(recordingPath);
    expect(paths.filter((it, index) => paths.indexOf(it) !== index)).toEqual([]);
    expect(await strayRecordings(scenarios)).toEqual([]);
  });

  it("explains accepted differences in docs/reference/differences.md", async () => {
    const text = await readFile(
      join(import.meta.dirname, "../../../../docs/reference/differences.md"),
      "utf8",
    );
    const headings = new Set(text.split("\n").filter((it) => it.startsWith("## ")));
    const reasons = [...ACCEPTED, ...EXPLAINED].map((it) => it.reason);
    expect(reasons.filter((it) => !headings.has(`## ${it}`))).toEqual([]);
  });

  it("accepts differences only of existing scenarios", () => {
    const known = new Set(scenarios.map((it) => `${it.area}/${it.title}`));
    const named = ACCEPTED.flatMap((it) => Object.keys(it.differences));
    expect(named.filter((it) => !known.has(it))).toEqual([]);
  });
});
