import { defineConfig } from "vitest/config";
import { FAILURES_FILE, FailureReporter } from "./scripts/failures.ts";

const failures = process.env[FAILURES_FILE];

/**
 * `unit` needs no privileges and runs in seconds; `lab` makes network namespaces and runs alone; `e2e` runs on clusters.
 * Files run by Node itself, untransformed, exactly as in production.
 */
export default defineConfig({
  test: {
    ...(failures === undefined ? {} : { reporters: ["default", new FailureReporter(failures)] }),
    experimental: { viteModuleRunner: false },
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
          // The flag --exclude of vitest does nothing for projects.
          exclude: [
            "test/lab/**",
            "test/e2e/fleet.test.ts",
            ...(process.env["TEST_EXCLUDE"]?.split(" ") ?? []),
          ],
          testTimeout: 30_000,
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
          name: "lab",
          include: ["test/lab/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: false,
          maxWorkers: 1,
        },
      },
    ],
  },
});
