/** `npm run test:full`: what `npm test` and `npm run test:ci` run, unit and integration tests on another day, and every run of the conformance suite that we hold ourselves to. */
import { runSteps, type Step } from "./steps.ts";
import { CI_TESTS, TESTS } from "./test.ts";

const ON_NAT = "test/lab/{chaos,fleet-faults,global-services,mcs-imports,profile-isolation}.test.ts";

const SAMPLED = [
  "--project=integration",
  "--project=lab",
  "--project=lab-machine",
  "packages/apiserver/test/kubectl",
  "test/chart/charts",
  "test/fleet/clocks",
  "test/fleet/embedded-hub",
  "test/fleet/hub-move",
  "test/fleet/join-refused",
  "test/fleet/judge-experiment",
  "test/fleet/placement-",
  "test/lab/bad-upgrades",
  "test/lab/chaos",
  "test/lab/faults-",
  "test/lab/leftovers",
  "test/lab/packet-sizes",
  "test/lab/parallel-network",
  "test/lab/global-services",
  "test/lab/policy-churn",
  "test/lab/policy-generated",
  "test/lab/policy-names",
  "test/lab/reboot",
  "test/lab/upgrades-at-once",
  "test/lab/profile-isolation",
];

const conformance = (name: string, ...flags: readonly string[]): Step => ({
  name: `conformance, ${name}`,
  command: ["node", "scripts/conformance.ts", ...flags],
});

const steps: readonly Step[] = [
  ...TESTS,
  ...CI_TESTS,
  { name: "tests on another day", command: ["node", "scripts/another-day.ts"] },
  { name: "end to end, on a lab", command: ["node", "scripts/e2e.ts"] },
  {
    name: "end to end, network policies, on a lab",
    command: ["node", "scripts/e2e.ts", "--agents", "--only", "network policy"],
  },
  {
    name: "cost of inputs up to their limits",
    command: ["env", "GROWTH=full", "vitest", "run", "--project", "integration", "test/growth"],
  },
  {
    name: "10,000 generated cases of network policies",
    command: [
      "env",
      "POLICY_CASES=10000",
      "vitest",
      "run",
      "--project",
      "unit",
      "packages/fleet/src/policy/cases.test.ts",
    ],
  },
  {
    name: "an agent of a node that is killed",
    command: ["env", "KILL_EVERY=5", "vitest", "run", "--project", "lab", "test/lab/node-killed.test.ts"],
  },
  {
    name: "the same while it enforces policies",
    command: ["env", "KILL_EVERY=1", "vitest", "run", "--project", "lab", "test/lab/policy-killed.test.ts"],
  },
  {
    name: "all cases of which npm test runs a sample",
    command: ["env", "TEST_SIZE=full", "CHAOS_MINUTES=3", "vitest", "run", ...SAMPLED],
  },
  {
    name: "faults and imports on a parallel network",
    command: ["env", `TEST_NAT=${ON_NAT}`, "CHAOS_MINUTES=3", "vitest", "run", "--project", "lab-nat"],
  },
  conformance("dual-stack"),
  conformance("IPv4 only", "--ip-family", "ipv4"),
  conformance("newest version of the suite", "--suite", "latest"),
];
if (!runSteps(steps)) process.exitCode = 1;
