/**
 * `npm run check`, the inner loop: format, lint, types, dead code, prose, generated files and unit tests. Lint and unit tests run for the packages that
 * the change touches, the types of unchanged packages are not checked again; `-- --all` runs all of it.
 */
import { changedFiles, readDependencies, touchedPackages } from "./changed.ts";
import { root, runSteps, type Step } from "./steps.ts";

/** Tests of the project as a whole that need no package to be loaded. */
const WHOLE = ["test/architecture.test.ts", "test/docs.test.ts"];

/** @param packages - Names of the packages to check; undefined: everything. */
export function checksOf(packages: ReadonlySet<string> | undefined): readonly Step[] {
  const folders = packages === undefined ? undefined : [...packages].map((it) => `packages/${it}/`);
  const tests = folders === undefined ? [] : [...folders, ...WHOLE];
  const lint: Step = { name: "lint", command: ["oxlint", ...(folders ?? ["."])] };
  return [
    { name: "format", command: ["oxfmt", "--check", "."] },
    ...(folders?.length === 0 ? [] : [lint]),
    { name: "types", command: ["tsc", "-b"] },
    { name: "dead code", command: ["knip"] },
    { name: "prose", command: ["node", "scripts/prose.ts"] },
    { name: "generated files", command: ["node", "scripts/generate.ts", "--check"] },
    { name: "unit tests", command: ["vitest", "run", "--project", "unit", ...tests] },
  ];
}

if (import.meta.main) {
  const files = process.argv.includes("--all") ? undefined : changedFiles(root);
  // With nothing changed there is nothing to leave out.
  const packages =
    files === undefined || files.length === 0 ? undefined : touchedPackages(files, readDependencies(root));
  const what = packages === undefined ? "everything" : ["documents", ...packages].join(", ");
  process.stdout.write(`checking ${what}\n`);
  if (!runSteps(checksOf(packages))) process.exitCode = 1;
}
