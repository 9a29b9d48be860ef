/** Bundles the programs: what the lab, the CLI of a checkout and the images start. */
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Takes `node:http` as CommonJS does. Imported as a module, every one of its exports is read, and reading one of them
 * (`WebSocket`) loads a second HTTP client that nothing here uses: 20 ms at the start of every program.
 */
const plainHttp: Plugin = {
  name: "plain-http",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:)?http$/ }, () => ({ path: "node:http", namespace: "plain-http" }));
    onLoad({ filter: /.*/, namespace: "plain-http" }, () => ({
      contents: 'module.exports = process.getBuiltinModule("node:http");',
    }));
  },
};

/** Makes `fairlead.mjs` and, beside it, the chunks that its commands load when they are asked for. */
export async function buildBundle(outdir: string): Promise<void> {
  await build({
    absWorkingDir: root,
    entryPoints: { fairlead: "src/cmd/fairlead/main.ts" },
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node24",
    sourcemap: true,
    minifySyntax: true,
    minifyWhitespace: true,
    plugins: [plainHttp],
    legalComments: "none",
    logLevel: "warning",
    // koffi finds its native library beside itself.
    external: ["koffi"],
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module";const require=__createRequire(import.meta.url);',
    },
  });
}
