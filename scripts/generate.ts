/**
 * Writes the tables that are derived from published facts about Kubernetes' kinds.
 *
 *     npm run generate [-- FOLDER]             read FOLDER (default: ../shared/kubernetes) and write the tables
 *     npm run generate -- --check [FOLDER]     write nothing; exit 1 where a committed table differs
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { trimDefinitions } from "./generate/definitions.ts";
import { readInputs, type Inputs } from "./generate/inputs.ts";
import { servedDefinitions } from "./generate/kinds.ts";
import { trimMessages } from "./generate/messages.ts";

const root = join(import.meta.dirname, "..");

/** One entry a line: small diffs, no second copy of the indentation. */
function renderTable(table: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(table).map(
    ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`,
  );
  return `{\n${lines.join(",\n")}\n}\n`;
}

function renderAll(inputs: Inputs): Map<string, string> {
  const served = servedDefinitions();
  return new Map([
    [
      "packages/apiserver/src/schema/definitions.generated.json",
      renderTable(trimDefinitions(inputs.definitions, served)),
    ],
    [
      "packages/apiserver/src/schema/messages.generated.json",
      renderTable(trimMessages(inputs.messages, served)),
    ],
  ]);
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return otherwise;
  }
}

function main(): number {
  const { values, positionals } = parseArgs({
    options: { check: { type: "boolean" } },
    allowPositionals: true,
  });
  const folder = positionals[0] ?? join(root, "../shared/kubernetes");
  const inputs = readInputs(folder);
  if (inputs === undefined) {
    console.log(`generate: skipped, no inputs in ${folder}`);
    return values.check === true ? 0 : 1;
  }
  const stale = [...renderAll(inputs)].filter(([path, text]) => readOr(join(root, path), "") !== text);
  for (const [path, text] of stale) {
    if (values.check !== true) writeFileSync(join(root, path), text);
    console.log(
      values.check === true ? `generate: ${path} is stale: run npm run generate` : `generate: wrote ${path}`,
    );
  }
  if (stale.length === 0) console.log("generate: all tables are as their inputs say");
  return values.check === true && stale.length > 0 ? 1 : 0;
}

process.exitCode = main();
