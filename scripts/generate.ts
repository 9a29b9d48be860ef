/**
 * Writes every generated file: manifests of CustomResourceDefinitions, rights and policies, the charts' rules, reference pages, and the API server's
 * tables, which need published facts about Kubernetes' kinds.
 *
 *     npm run generate [-- FOLDER]             write; the facts are in FOLDER (default: ../shared/kubernetes), without which the tables stay
 *     npm run generate -- --check [FOLDER]     write nothing; exit 1 if a committed file differs
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { chartFiles } from "./chart-files.ts";
import { crdManifests } from "./crd-manifests.ts";
import { cliReference } from "./generate/cli-reference.ts";
import { absentIn, trimDefinitions } from "./generate/definitions.ts";
import { readInputs, type Inputs } from "./generate/inputs.ts";
import { servedDefinitions } from "./generate/kinds.ts";
import { trimMessages } from "./generate/messages.ts";
import { rbacManifests } from "./rbac-manifests.ts";

const root = join(import.meta.dirname, "..");

/** One entry a line: small diffs, no second copy of the indentation. */
function renderTable(table: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(table).map(
    ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`,
  );
  return `{\n${lines.join(",\n")}\n}\n`;
}

/** The API server's tables, by path; none without the inputs. */
function tables(inputs: Inputs | undefined): readonly (readonly [path: string, text: string])[] {
  if (inputs === undefined) return [];
  const served = servedDefinitions();
  const folder = "packages/apiserver/src/schema";
  const trimmed = trimDefinitions(inputs.definitions, served);
  return [
    ...Object.entries(inputs.earlier).map(
      ([minor, earlier]) =>
        [`${folder}/absent-${minor}.generated.json`, renderTable(absentIn(earlier, trimmed))] as const,
    ),
    [`${folder}/definitions.generated.json`, renderTable(trimmed)],
    [`${folder}/messages.generated.json`, renderTable(trimMessages(inputs.messages, served))],
  ];
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return otherwise;
  }
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: { check: { type: "boolean" } },
    allowPositionals: true,
  });
  const isCheck = values.check === true;
  const folder = positionals[0] ?? join(root, "../shared/kubernetes");
  const inputs = readInputs(folder);
  if (inputs === undefined)
    console.log(`generate: the API server's tables are left as they are: no facts in ${folder}`);
  const files = [
    ...tables(inputs),
    ...[...crdManifests()].map(([name, text]) => [`docs/reference/crds/${name}`, text] as const),
    ...chartFiles(),
    ...rbacManifests(),
    ["docs/reference/cli.md", await cliReference()] as const,
  ];
  const stale = files.filter(([path, text]) => readOr(join(root, path), "") !== text);
  for (const [path, text] of stale) {
    if (!isCheck) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    console.log(
      isCheck ? `generate: ${path} is out of date; run: npm run generate` : `generate: wrote ${path}`,
    );
  }
  if (stale.length === 0) console.log("generate: all generated files are up to date");
  return isCheck && stale.length > 0 ? 1 : 0;
}

process.exitCode = await main();
