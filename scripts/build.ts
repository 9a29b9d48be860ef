/** What is carried elsewhere: the bundle in `dist/bundle`; with `image` also an image of it, an OCI layout in `dist/image`. */
import { rmSync, writeFileSync } from "node:fs";
import { buildBundle } from "./bundle.ts";
import { buildImage } from "./image/build.ts";
import { bundledParts, noticesOf } from "./image/parts.ts";
import { root } from "./steps.ts";

const bundle = `${root}dist/bundle`;
rmSync(bundle, { recursive: true, force: true });
const packages = bundledParts(await buildBundle(bundle));
// Beside what is built with a container engine, too.
writeFileSync(`${bundle}/NOTICES`, noticesOf(packages));
if (process.argv[2] === "image") {
  // The variable by which tools of reproducible builds agree on the time of files.
  const modified = Number(process.env["SOURCE_DATE_EPOCH"] ?? 0);
  console.log(await buildImage({ bundle, packages, folder: `${root}dist/image`, modified }));
}
