/** `npm run test:chaos -- --minutes 60 --seed 7`: the lab test of chaos for longer than `npm test` has time for. */
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { root } from "./steps.ts";

const { values } = parseArgs({ options: { minutes: { type: "string" }, seed: { type: "string" } } });
const { minutes = "10", seed = String(Date.now() % 1_000_000) } = values;

if (!/^\d{1,4}$/.test(minutes) || !/^\d{1,9}$/.test(seed)) {
  process.stderr.write("usage: npm run test:chaos -- [--minutes NUMBER] [--seed NUMBER]\n");
  process.exitCode = 2;
} else {
  process.stdout.write(`chaos for ${minutes} minutes, seed ${seed}\n`);
  const command = `${root}node_modules/.bin/vitest`;
  const { status } = spawnSync(command, ["run", "--project", "lab", "test/lab/chaos.test.ts"], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, CHAOS_MINUTES: minutes, CHAOS_SEED: seed },
  });
  process.exitCode = status ?? 1;
}
