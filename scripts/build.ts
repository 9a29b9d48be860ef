/** Bundles the programs into `dist/`: what the lab, the CLI of a checkout and the images start. */
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { buildImage } from "./image/build.ts";

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

/**
 * Makes `dist/fairlead.mjs` and the chunks that its commands load when they are asked for. Chunks are named by their
 * content and those of before stay: a program that runs may still load one.
 */
export async function buildBundle(outdir = `${root}dist`): Promise<void> {
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

/** Without a word the bundle; with `image` also an image of it, as an OCI layout in `dist/image`. */
if (import.meta.main) {
  const what = process.argv[2];
  rmSync(`${root}dist`, { recursive: true, force: true });
  await buildBundle();
  if (what === "image") {
    // The variable by which tools of reproducible builds agree on the time of files.
    const modified = Number(process.env["SOURCE_DATE_EPOCH"] ?? 0);
    console.log(await buildImage({ bundle: `${root}dist`, folder: `${root}dist/image`, modified }));
  }
}
