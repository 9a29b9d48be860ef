// The bundles of a checkout, each in a folder of `dist/` that is named by what it was made of. One that is there is
// whole and stays as it is, so that a program finds in its own what it loads later, whatever has been built since.
// Where the checkout cannot be written to, `dist/` is in the user's cache, next to links to the parts of the checkout
// that programs find from the path of their bundle.
import { createHash, randomUUID } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { connect, createServer } from "node:net";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

/** Inputs of a bundle in addition to the sources: its packages, how imports resolve, and how it is made. */
const ALSO = [
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "tsconfig.base.json",
  "scripts/bundle.ts",
];

/** Bundles that stay although nothing runs from them, so that switching between changes needs no rebuild. */
const KEPT = 5;

/** Folder of the bundle of the sources as they are now. It is not removed as long as this process lives. */
export async function ensureBundle() {
  for (;;) {
    const key = keyOfSources();
    const own = join(root, "dist", key);
    if (hold(own)) return own;
    const folder = canWrite(own) ? own : join(cacheFolder(), "dist", key);
    if (hold(folder)) return folder;
    // Only to avoid duplicate work: two builds at once would not disturb each other.
    await alone(`fairlead builds ${dirname(folder)}`, () => existsSync(folder) || make(folder));
  }
}

/** Whether a bundle can be made there: the file system may be read-only, and the checkout another user's. */
function canWrite(folder) {
  const dist = dirname(folder);
  try {
    accessSync(existsSync(dist) ? dist : root, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Takes the place of the checkout: one for each. */
function cacheFolder() {
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  return join(caches, "fairlead", hashOf(root).slice(0, 16));
}

/** Programs find these from the path of their bundle. */
function linkCheckout(folder) {
  for (const name of ["bin", "node_modules"]) {
    try {
      symlinkSync(join(root, name), join(folder, name));
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
  }
}

function hashOf(text) {
  return createHash("sha256").update(text).digest("hex");
}

/** Builds in a temporary folder and moves the whole into place, unless the sources changed in the meantime. */
async function make(folder) {
  const fresh = `${folder}.${randomUUID()}`;
  const dist = dirname(folder);
  // Pods of a lab run the programs as other users. The checkout's folder says who may see them on the machine.
  const umask = process.umask(0o022);
  try {
    mkdirSync(join(fresh, "compile-cache"), { recursive: true });
    if (dirname(dist) !== root) linkCheckout(dirname(dist));
    hold(fresh);
    const { buildBundle } = await import("./bundle.ts");
    await buildBundle(fresh);
    if (keyOfSources() === basename(folder)) renameSync(fresh, folder);
    removeUnused(dist);
  } catch (error) {
    // Another one was first, or what is left over cannot be removed.
    if (existsSync(folder)) return;
    const hint = dist.startsWith(`${root}/`)
      ? ""
      : `; ${root} cannot be written to, and XDG_CACHE_HOME selects another folder`;
    throw new Error(`cannot build the programs into ${folder}: ${error.message}${hint}`, { cause: error });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    process.umask(umask);
  }
}

function keyOfSources() {
  const packages = readdirSync(join(root, "packages")).map((it) => join(root, "packages", it));
  const sources = packages
    .filter((it) => existsSync(join(it, "src")))
    .flatMap((it) => readdirSync(join(it, "src"), { recursive: true, withFileTypes: true }))
    .filter((it) => it.isFile() && !it.name.endsWith(".test.ts"))
    .map((it) => join(it.parentPath, it.name))
    .concat(packages.map((it) => join(it, "package.json")).filter((it) => existsSync(it)))
    .toSorted();
  const hash = createHash("sha256");
  for (const path of [...sources, ...ALSO.map((it) => join(root, it))]) {
    const content = readFileSync(path);
    hash.update(`${path.slice(root.length)} ${content.length}\n`).update(content);
  }
  return hash.digest("hex").slice(0, 16);
}

/** Keeps a folder open, for others to see that it is in use. Returns whether it is there. */
function hold(folder) {
  try {
    return openSync(folder) >= 0;
  } catch {
    return false;
  }
}

/** Removes what no process uses from a folder of bundles: all but the newest bundles, and what builds left that were killed. */
function removeUnused(dist) {
  const folders = readdirSync(dist)
    .filter((it) => /^[0-9a-f]{16}(\..+)?$/.test(it))
    .map((it) => join(dist, it))
    .toSorted((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  const whole = folders.filter((it) => !it.includes(".", dist.length));
  const spared = new Set(whole.slice(0, KEPT));
  const uses = usedPaths();
  for (const folder of folders)
    if (!spared.has(folder) && !uses.some((it) => it === folder || it.startsWith(`${folder}/`)))
      rmSync(folder, { recursive: true, force: true });
}

/** What processes were started with and what they hold open, of those that this one may look at. */
function usedPaths() {
  return readdirSync("/proc")
    .filter((it) => /^\d+$/.test(it))
    .flatMap((pid) => [
      ...visible(() => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")),
      ...visible(() => readdirSync(`/proc/${pid}/fd`)).flatMap((fd) =>
        visible(() => [readlinkSync(`/proc/${pid}/fd/${fd}`)]),
      ),
    ]);
}

/** Nothing, where a process has ended or is another user's. */
function visible(read) {
  try {
    return read();
  } catch {
    return [];
  }
}

/**
 * Does the work when no other process on this machine does work of this name. The name is a socket's in the abstract
 * namespace (unix(7)): the kernel releases it when its owner ends, however it ends.
 */
async function alone(name, work) {
  // The kernel takes 107 bytes, and the folder may have more.
  const path = `\0fairlead ${hashOf(name)}`;
  for (;;) {
    const waiting = new Set();
    const server = createServer((it) => waiting.add(it.on("error", () => {})));
    const isMine = await new Promise((resolve) => {
      server.once("error", () => resolve(false)).listen(path, () => resolve(true));
    });
    if (isMine) {
      await work();
      server.close();
      for (const it of waiting) it.destroy();
      return;
    }
    await new Promise((resolve) => {
      connect(path)
        .on("error", () => {})
        .once("close", resolve);
    });
  }
}
