/** `npm test`: the checks, and then the tests that need network namespaces. */
import { CHECKS } from "./check.ts";
import { runSteps } from "./steps.ts";

const lab = { name: "lab tests", command: ["vitest", "run", "--project", "lab"] } as const;
if (!runSteps([...CHECKS, { name: lab.name, command: [...lab.command] }])) process.exitCode = 1;
