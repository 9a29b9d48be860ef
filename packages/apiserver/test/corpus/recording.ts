import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { Document, isMap, isPair, isScalar, parse, visit } from "yaml";
import type { Answer } from "./play.ts";
import type { Scenario } from "./scenario.ts";

/** What the real server answered to a scenario, as a file. */
export interface Recording {
  /** Version of the server, as its /version says. */
  readonly server: string;
  readonly answers: readonly Answer[];
}

const FOLDER = join(import.meta.dirname, "recorded");

export function recordingPath({ area, title }: Pick<Scenario, "area" | "title">): string {
  const slug = title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
  return join(FOLDER, area, `${slug}.yaml`);
}

export async function readRecording(scenario: Scenario): Promise<Recording | undefined> {
  const path = recordingPath(scenario);
  if (!existsSync(path)) return undefined;
  return parse(await readFile(path, "utf8"), { maxAliasCount: -1 }) as Recording;
}

export async function writeRecording(scenario: Scenario, { server, answers }: Recording): Promise<void> {
  const path = recordingPath(scenario);
  await mkdir(dirname(path), { recursive: true });
  const document = new Document({ server, answers }, { aliasDuplicateObjects: false });
  document.commentBefore = ` ${scenario.title}\n Recorded by scripts/corpus.ts; not to be edited.`;
  // Which fields a manager owns takes one line.
  visit(document, (_, node) => {
    if (!isPair(node) || !isScalar(node.key) || node.key.value !== "fieldsV1" || !isMap(node.value)) return;
    node.value.flow = true;
  });
  await writeFile(path, document.toString({ lineWidth: 0, flowCollectionPadding: false }));
}

/** Recordings that no scenario made, relative to their folder. */
export async function strayRecordings(scenarios: readonly Scenario[]): Promise<readonly string[]> {
  const wanted = new Set(scenarios.map(recordingPath));
  const files = await readdir(FOLDER, { recursive: true, withFileTypes: true });
  return files
    .filter((it) => it.isFile())
    .map((it) => join(it.parentPath, it.name))
    .filter((it) => !wanted.has(it))
    .map((it) => relative(FOLDER, it));
}
