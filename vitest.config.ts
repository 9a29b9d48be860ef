import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { DetailsReporter } from "./scripts/details-reporter.ts";
import { FAILURES_FILE, FailureReporter } from "./scripts/failures.ts";
import { canIsolate, isolatedPool } from "./scripts/isolated-pool.ts";
import { LongestFirst } from "./scripts/longest-first.ts";

const failures = process.env[FAILURES_FILE];

/** Beside the sources, and needs sockets or programs. */
const INTEGRATION = "packages/*/src/**/*.integration.test.ts";
/** Besides those beside the sources: what is below `test/` and needs neither sockets nor programs. */
const UNIT = [
  "packages/*/src/**/*.test.ts",
  "scripts/**/*.test.ts",
  "test/{architecture,coming-from,docs,regular-expressions}.test.ts",
  "packages/apiserver/test/corpus/normalise.test.ts",
  "test/{e2e/{remove,snapshot},fleet/{crds,pairs},fuzz/decoders,kube/client-fake,mcs/conflicts}.test.ts",
  "test/{recorded-objects/recorded,traffic/fake}.test.ts",
];
/** What it compares is the machine before a lab and after. */
const ON_MACHINE = ["test/lab/leftovers.test.ts"];
/** Run on a flat network and on a parallel one: services have to work alike. Others of them: scripts/test-full.ts. */
const IN_BOTH_NETWORKS = process.env["TEST_NAT"] ?? "test/lab/chaos.test.ts";
/** "test": `npm test`; "ci": `npm run test:ci`, which takes what `npm test` has no time for; "full": everything, in full size. */
const SIZE = process.env["TEST_SIZE"];
/** Left to `npm run test:full`: programs are restarted or slowed down one by one, or packets of every size sent, for minutes. */
const IN_FULL_ONLY = SIZE === "full" ? [] : ["test/lab/{faults-{clock,seen,server},packet-sizes}.test.ts"];
/** Left to `npm run test:ci`: whole installations, labs in which one thing after the other fails, and the machine afterwards. */
const IN_CI = [
  "test/chart/{image,install,install-page}.test.ts",
  "test/fleet/{absent-fields,faults,hub-away}.test.ts",
  "test/lab/{between-nodes,charts,examples,faults-programs,fleet-faults,mode-change,nat,upgrade}.test.ts",
  "test/release/**/*.test.ts",
];
const TAKEN = SIZE === "ci" ? IN_CI : ["test/{lab,release}/**/*.test.ts"];
/** Left to `npm run test:full` as well: what `IN_CI` has in another form. */
const IN_FULL = [
  "test/fleet/{embedded-hub,hub-move}.test.ts",
  "test/lab/{bad-upgrades,chaos,faults-network,global-services,node-killed,profile-isolation,upgrades-at-once}.test.ts",
];
const LEFT = SIZE === "test" ? [...IN_CI, ...IN_FULL] : [];
/** The flag --exclude of vitest does nothing for projects. */
const EXCLUDED = process.env["TEST_EXCLUDE"]?.split(" ") ?? [];
const SETUP = ["scripts/same-chance.ts", "scripts/own-compile-cache.ts"];
/** Ends what hangs: on a machine that is full of other work, tests of seconds take a minute. Unit: milliseconds. */
const PATIENCE = { testTimeout: 120_000, hookTimeout: 120_000 };
const LAB = {
  setupFiles: SETUP,
  // In namespaces of its own.
  isolate: true,
  ...PATIENCE,
  globalSetup: ["scripts/bundle-once.mjs"],
  // Two thirds of their time is spent waiting: three keep two cores busy. Where they cannot be kept apart, they go one by one.
  maxWorkers: canIsolate ? 3 : 1,
  sequence: { groupOrder: 1 },
};

/**
 * `unit` opens no sockets and starts no programs; `integration` does, and needs no privileges; `lab` makes network
 * namespaces; `e2e` runs on clusters. Files run by Node itself, untransformed, exactly as in production.
 */
export default defineConfig({
  test: {
    reporters: [
      "minimal",
      new DetailsReporter(import.meta.dirname),
      ...(failures === undefined ? [] : [new FailureReporter(failures)]),
    ],
    // Nothing keeps state in modules, which need not be loaded and compiled again for each file.
    isolate: false,
    // Each file of labs is a process of its own: types are taken out of the sources, and these are compiled, once for all.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, ".cache", "tests") },
    // The default leaves a core unused, of two as well.
    maxWorkers: availableParallelism(),
    experimental: { viteModuleRunner: false },
    // The default of 1 s is missed on a busy machine.
    expect: { poll: { timeout: 20_000 } },
    // By chance: scripts/another-day.ts.
    sequence:
      process.env["TEST_ORDER"] === "random" ? { shuffle: { files: true } } : { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: UNIT,
          exclude: [INTEGRATION, ...EXCLUDED],
          setupFiles: [...SETUP, "scripts/no-outside.ts"],
          ...PATIENCE,
        },
      },
      {
        extends: true,
        test: {
          name: "integration",
          // A third of their time is spent waiting.
          maxWorkers: Math.ceil(1.5 * availableParallelism()),
          sequence: { groupOrder: 2 },
          include: SIZE === "ci" ? IN_CI : [INTEGRATION, "{test,packages/*/test}/**/*.test.ts"],
          setupFiles: SETUP,
          exclude: [
            ...LEFT,
            "test/{lab,release}/**",
            "test/e2e/fleet.test.ts",
            ...UNIT.slice(1),
            ...EXCLUDED,
          ],
          ...PATIENCE,
          // A real kube-apiserver takes its time to start (`npm run test:real`).
          ...(process.env["TEST_API_SERVER"] === "real" ? { hookTimeout: 180_000 } : {}),
        },
      },
      {
        extends: true,
        test: {
          // Run by scripts/e2e.ts, which says on which clusters.
          name: "e2e",
          include: ["test/e2e/fleet.test.ts"],
          testTimeout: 600_000,
          hookTimeout: 900_000,
        },
      },
      {
        extends: true,
        test: {
          ...LAB,
          name: "lab",
          include: TAKEN,
          exclude: [...LEFT, ...ON_MACHINE, ...IN_FULL_ONLY, "test/{chart,fleet}/**"],
          ...(canIsolate ? { pool: isolatedPool } : {}),
        },
      },
      {
        extends: true,
        test: {
          ...LAB,
          name: "lab-nat",
          include: [IN_BOTH_NETWORKS],
          env: { LAB_TOPOLOGY: "nat", CHAOS_MINUTES: process.env["CHAOS_MINUTES"] ?? "0.3" },
          ...(canIsolate ? { pool: isolatedPool } : {}),
        },
      },
      { extends: true, test: { ...LAB, name: "lab-machine", include: ON_MACHINE } },
    ],
  },
});
