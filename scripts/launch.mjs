// Starts the CLI of a checkout from its bundle, which it renews when a source file is newer.
import { enableCompileCache } from "node:module";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const bundle = join(root, "dist", "fairlead.mjs");

function newestIn(folder) {
  let newestMs = statSync(folder).mtimeMs;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    newestMs = Math.max(newestMs, entry.isDirectory() ? newestIn(path) : statSync(path).mtimeMs);
  }
  return newestMs;
}

export async function ensureBundle() {
  const sources = existsSync(join(root, "src"));
  if (sources && (!existsSync(bundle) || newestIn(join(root, "src")) > statSync(bundle).mtimeMs)) {
    const { buildBundle } = await import("./build.ts");
    try {
      await buildBundle();
    } catch (error) {
      process.stderr.write(`fairlead: cannot renew the bundle in ${join(root, "dist")}: ${error.message}\n`);
      process.exit(1);
    }
  }
  return bundle;
}

if (import.meta.main) {
  enableCompileCache(join(root, "node_modules", ".compile-cache"));
  const entry = await ensureBundle();
  process.argv[1] = entry;
  await import(entry);
}
