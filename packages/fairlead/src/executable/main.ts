import { runAsCalled } from "#called.ts";

/** The single executable: one CommonJS file (scripts/bundle.ts), in which nothing can be awaited at the top. */
async function main(): Promise<void> {
  process.exitCode = await runAsCalled();
}

void main();
