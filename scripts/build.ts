/**
 * What is carried elsewhere: the bundle in `dist/bundle`.
 *
 *     npm run build -- image               also the image, an OCI layout in `dist/image`
 *     npm run build -- release [x64]       everything that people install, in `dist/release`; with "x64" for that architecture only
 *
 * SOURCE_DATE_EPOCH is the time of files; default: 0. FAIRLEAD_SIGNING_KEY names a file with the key that signs a release.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { exec } from "@fairlead/base/exec.ts";
import { buildBundle } from "./bundle.ts";
import { buildImage } from "./image/build.ts";
import { bundledParts, noticesOf } from "./image/parts.ts";
import { buildRelease } from "./release/build.ts";
import { ARCHITECTURES } from "./release/platform.ts";
import { root } from "./steps.ts";

const [what, architecture] = process.argv.slice(2);
// The variable by which tools of reproducible builds agree on the time of files.
const modified = Number(process.env["SOURCE_DATE_EPOCH"] ?? 0);

// Those of a former build may have known weaknesses.
if (what === "release" || what === "image")
  await exec(process.execPath, [`${root}scripts/debian-packages.mjs`], { timeoutMs: 600_000 });

if (what === "release") await release();
else await bundle();

async function bundle(): Promise<void> {
  const folder = `${root}dist/bundle`;
  rmSync(folder, { recursive: true, force: true });
  const packages = bundledParts(await buildBundle(folder));
  // Also next to artefacts that are built with a container engine.
  writeFileSync(`${folder}/NOTICES`, noticesOf(packages));
  if (what === "image")
    console.log(await buildImage({ bundle: folder, packages, folder: `${root}dist/image`, modified }));
}

async function release(): Promise<void> {
  const architectures = ARCHITECTURES.filter((it) => architecture === undefined || it === architecture);
  const key = process.env["FAIRLEAD_SIGNING_KEY"];
  const folder = `${root}dist/release`;
  const files = await buildRelease({
    folder,
    architectures,
    modified,
    compression: 9,
    signingKey: key === undefined ? undefined : readFileSync(key, "utf8"),
  });
  for (const it of files) console.log(`dist/release/${it}`);
  if (key === undefined)
    console.log("The release is not signed: FAIRLEAD_SIGNING_KEY names no file with an Ed25519 key.");
}
