// Debian packages as files, for any Node.
//
//   node scripts/debian-packages.mjs     downloads those of the image
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const tools = JSON.parse(readFileSync(new URL("image/tools.json", import.meta.url), "utf8"));
export const IMAGE_PACKAGES = [...Object.keys(tools.programs), ...tools.libraries];

/** The packages of the image, as files of apt-get. */
export const IMAGE_PACKAGES_FOLDER = fileURLToPath(new URL("../node_modules/.tools/image", import.meta.url));

/**
 * Downloads the present versions of packages for this machine into `folder`, which is emptied. Nothing is installed, and root is
 * not needed; apt-get compares each file with the signed package lists.
 */
export function downloadPackages(folder, packages) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const env = { ...process.env, LC_ALL: "C" };
  const stdio = ["ignore", "ignore", "inherit"];
  const run = (args) => spawnSync("apt-get", args, { cwd: folder, env, stdio }).status === 0;
  const download = () => run(["download", "-qq", ...packages]);
  if (download() || (run(["update", "-qq"]) && download())) return;
  rmSync(folder, { recursive: true, force: true });
  throw new Error(
    `apt-get could not download ${packages.join(", ")}; repair the package sources and run the command again`,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  downloadPackages(IMAGE_PACKAGES_FOLDER, IMAGE_PACKAGES);
