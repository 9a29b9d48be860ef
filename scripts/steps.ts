/** Runs the steps of a check one after the other and prints the result of each. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FAILURES_FILE } from "./failures.ts";

export const root = fileURLToPath(new URL("..", import.meta.url));

export interface Step {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
}

/** Runs every step, also after a failed one, so that all problems are seen at once; false if any failed. */
export function runSteps(steps: readonly Step[]): boolean {
  const failed: string[] = [];
  const folder = mkdtempSync(join(tmpdir(), "fairlead-checks-"));
  const failures = join(folder, "failures");
  for (const step of steps) {
    const [command, ...args] = step.command;
    const startMs = performance.now();
    process.stdout.write(`\n== ${step.name}\n`);
    const path = `${root}node_modules/.bin:${process.env["PATH"] ?? ""}`;
    const result = spawnSync(command, args, {
      cwd: root,
      stdio: ["ignore", "inherit", "inherit"],
      env: { ...process.env, PATH: path, [FAILURES_FILE]: failures },
    });
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    const isOk = result.status === 0;
    process.stdout.write(`== ${step.name}: ${isOk ? "ok" : "FAILED"} (${seconds} s)\n`);
    if (!isOk) failed.push(step.name);
  }
  if (failed.length > 0) {
    const tests = existsSync(failures) ? readFileSync(failures, "utf8") : "";
    process.stdout.write(`\nfailed: ${failed.join(", ")}\n${tests}`);
  }
  rmSync(folder, { recursive: true, force: true });
  return failed.length === 0;
}
