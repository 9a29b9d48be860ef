/** `npm run test:full`: what `npm test` runs, the unit tests on another day, and every run of the conformance suite that we hold ourselves to. */
import { CHECKS } from "./check.ts";
import { runSteps, type Step } from "./steps.ts";

const conformance = (name: string, ...flags: readonly string[]): Step => ({
  name: `conformance, ${name}`,
  command: ["node", "scripts/conformance.ts", ...flags],
});

const steps: readonly Step[] = [
  ...CHECKS,
  { name: "lab tests", command: ["vitest", "run", "--project", "lab"] },
  { name: "unit tests on another day", command: ["node", "scripts/another-day.ts"] },
  { name: "end to end, on a lab", command: ["node", "scripts/e2e.ts"] },
  {
    name: "cost of inputs up to their limits",
    command: ["env", "GROWTH=full", "vitest", "run", "--project", "unit", "test/growth"],
  },
  conformance("dual-stack"),
  conformance("IPv4 only", "--ip-family", "ipv4"),
  conformance("newest version of the suite", "--suite", "latest"),
];
if (!runSteps(steps)) process.exitCode = 1;
