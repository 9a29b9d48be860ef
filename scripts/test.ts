/** `npm test`: the checks, and then the tests that need sockets, programs and network namespaces. */
import { checksOf } from "./check.ts";
import { runSteps, type Step } from "./steps.ts";

export const TESTS: readonly Step[] = [
  ...checksOf(undefined),
  { name: "integration tests", command: ["vitest", "run", "--project", "integration"] },
  {
    name: "lab tests",
    command: ["vitest", "run", ...["lab", "lab-nat", "lab-machine"].flatMap((it) => ["--project", it])],
  },
];

if (import.meta.main && !runSteps(TESTS)) process.exitCode = 1;
