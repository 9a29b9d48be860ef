/** `npm run bench -- NAME`: runs `bench/NAME.ts`, which prints figures as ratios against a limit taken in the same run. */
import { readdirSync } from "node:fs";
import { root } from "./steps.ts";

interface Bench {
  run(argv: readonly string[]): Promise<void>;
}

const names = readdirSync(`${root}bench`)
  .filter((it) => it.endsWith(".ts"))
  .map((it) => it.slice(0, -3));
const [name, ...rest] = process.argv.slice(2);

if (name === undefined || !names.includes(name)) {
  process.stderr.write(`usage: npm run bench -- NAME\nbenches: ${names.join(", ")}\n`);
  process.exitCode = 2;
} else {
  const bench = (await import(`../bench/${name}.ts`)) as Bench;
  await bench.run(rest);
}
