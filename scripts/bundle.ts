/** Bundles the programs: what the lab, the CLI of a checkout and the images start. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";

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

/** Where a package is loaded when it is first used, at once: by `load`, which `createRequire` made. */
const LOADS_LATE = /[\\/]apiserver[\\/]src[\\/]schema[\\/]patterns\.ts$/;

/** Takes such a package into the bundle, still to be loaded late: esbuild does so for the word `require`, and no other. */
const latePackages: Plugin = {
  name: "late-packages",
  setup({ onLoad }) {
    onLoad({ filter: LOADS_LATE }, async ({ path }) => {
      const contents = (await readFile(path, "utf8")).replace(/\bload\("/, 'require("');
      return { contents, loader: "ts" };
    });
  },
};

/** Takes the native library of koffi from the single executable, in which no package is found. */
const embeddedKoffi: Plugin = {
  name: "embedded-koffi",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^koffi$/ }, () => ({ path: "koffi", namespace: "embedded-koffi" }));
    onLoad({ filter: /.*/, namespace: "embedded-koffi" }, () => ({
      contents: 'export { koffi as default } from "./packages/fairlead/src/executable/koffi.ts";',
      resolveDir: root,
    }));
  },
};

/** What both bundles have in common. */
const COMMON = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  target: "node24",
  metafile: true,
  minifySyntax: true,
  minifyWhitespace: true,
  plugins: [plainHttp, latePackages],
  legalComments: "none",
  logLevel: "warning",
} as const satisfies BuildOptions;

/**
 * Makes `fairlead.mjs` and, next to it, the chunks that its commands load when they are needed.
 *
 * @returns What went into each.
 */
export async function buildBundle(outdir: string): Promise<Metafile> {
  const { metafile } = await build({
    ...COMMON,
    entryPoints: { fairlead: "packages/fairlead/src/main.ts" },
    outdir,
    outExtension: { ".js": ".mjs" },
    splitting: true,
    format: "esm",
    sourcemap: true,
    // koffi looks for its native library in its own folder.
    external: ["koffi"],
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module";const require=__createRequire(import.meta.url);',
    },
  });
  return metafile;
}

/**
 * Makes one CommonJS file of all programs: a single executable loads neither modules nor further files.
 *
 * @returns What went into it.
 */
export async function buildOneFile(outfile: string): Promise<Metafile> {
  const { metafile } = await build({
    ...COMMON,
    entryPoints: ["packages/fairlead/src/executable/main.ts"],
    outfile,
    format: "cjs",
    supported: { "dynamic-import": false },
    plugins: [...COMMON.plugins, embeddedKoffi],
    define: { "import.meta.url": "__filename" },
  });
  return metafile;
}
