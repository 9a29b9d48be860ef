/** `npm test`: the checks, and then the tests that need sockets, programs and network namespaces. `npm run test:ci`: the others. */
import { checksOf } from "./check.ts";
import { runSteps, type Step } from "./steps.ts";

function vitest(size: "test" | "ci", ...projects: readonly string[]): Step["command"] {
  return ["env", `TEST_SIZE=${size}`, "vitest", "run", ...projects.flatMap((it) => ["--project", it])];
}

export const TESTS: readonly Step[] = [
  ...checksOf(undefined),
  { name: "integration tests", command: vitest("test", "integration") },
  {
    name: "lab tests",
    command: vitest("test", "lab"),
  },
];

/** What `npm test` has no time for: `IN_CI` of vitest.config.ts. */
export const CI_TESTS: readonly Step[] = [
  {
    name: "tests of installations, of faults and of the machine",
    command: vitest("ci", "integration", "lab", "lab-machine"),
  },
];

const isCi = process.argv.includes("--ci");
if (import.meta.main && !runSteps(isCi ? CI_TESTS : TESTS)) process.exitCode = 1;
