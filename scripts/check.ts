/** The inner loop: format, lint, types, dead code, generated files, and the unit tests, the architecture among them. */
import { runSteps, type Step } from "./steps.ts";

export const CHECKS: readonly Step[] = [
  { name: "format", command: ["oxfmt", "--check", "."] },
  { name: "lint", command: ["oxlint", "."] },
  { name: "types", command: ["tsc", "-b"] },
  { name: "dead code", command: ["knip"] },
  { name: "generated files", command: ["node", "scripts/generate.ts", "--check"] },
  { name: "unit tests", command: ["vitest", "run", "--project", "unit"] },
];

if (import.meta.main && !runSteps(CHECKS)) process.exitCode = 1;
