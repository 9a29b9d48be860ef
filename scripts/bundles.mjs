// The bundles of a checkout, each in a folder of `dist/` that is named by what it was made of. One that is there is
// whole and stays as it is, so that a program finds in its own what it loads later, whatever has been built since.
import { createHash, randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

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
    const folder = join(dist, keyOfSources());
    if (hold(folder)) return folder;
    // Only to avoid duplicate work: two builds at once would not disturb each other.
    await alone(`fairlead builds ${dist}`, () => existsSync(folder) || make(folder));
  }
}

/** Builds in a temporary folder and moves the whole into place, unless the sources changed in the meantime. */
async function make(folder) {
  const fresh = `${folder}.${randomUUID()}`;
  try {
    mkdirSync(join(fresh, "compile-cache"), { recursive: true });
    hold(fresh);
    const { buildBundle } = await import("./bundle.ts");
    await buildBundle(fresh);
    if (join(dist, keyOfSources()) === folder) renameSync(fresh, folder);
    removeUnused();
  } catch (error) {
    // Another one was first, or what is left over cannot be removed.
    if (existsSync(folder)) return;
    throw new Error(`cannot build the programs into ${folder}: ${error.message}`, { cause: error });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
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

/** Removes what no process uses: all but the newest bundles, and what builds left that were killed. */
function removeUnused() {
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
  for (;;) {
    const waiting = new Set();
    const server = createServer((it) => waiting.add(it.on("error", () => {})));
    const isMine = await new Promise((resolve) => {
      server.once("error", () => resolve(false)).listen(`\0${name}`, () => resolve(true));
    });
    if (isMine) {
      await work();
      server.close();
      for (const it of waiting) it.destroy();
      return;
    }
    await new Promise((resolve) => {
      connect(`\0${name}`)
        .on("error", () => {})
        .once("close", resolve);
    });
  }
}
