// Starts the CLI of a checkout from the bundle of its sources, which it builds if it is absent.
import { enableCompileCache } from "node:module";
import { join } from "node:path";
import { ensureBundle } from "./bundles.mjs";

const folder = await ensureBundle().catch((error) => {
  process.stderr.write(`fairlead: ${error.message}\n`);
  process.exit(1);
});
enableCompileCache(join(folder, "compile-cache"));
const entry = join(folder, "fairlead.mjs");
process.argv[1] = entry;
await import(entry);
