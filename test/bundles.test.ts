import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempDisposableSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";

/** How a checkout starts its programs, on one of a few lines: the content of `dist/` while the sources change. */

const root = fileURLToPath(new URL("..", import.meta.url));
const canBeApart = (await exec("unshare", ["--net", "true"], { allowFailure: true })).exitCode === 0;

/** Prints where it runs from; asked to continue, it loads a module that it did not need until then. */
const PROGRAM = `
process.stdout.write(\`\${process.argv[1]}\\n\`);
if (process.argv[2] === "wait") await new Promise((resolve) => process.stdin.once("data", resolve));
const { word } = await import("./later.ts");
process.stdout.write(\`\${word}\\n\`);
process.exit(0);
`;

let folder: string;
let made: string;
let running: ChildProcess[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-bundles-"));
  made = folder;
  running = [];
  for (const it of ["package.json", "package-lock.json", "tsconfig.json", "tsconfig.base.json"])
    cpSync(join(root, it), join(folder, it));
  for (const it of ["launch.mjs", "bundles.mjs"])
    cpSync(join(root, "scripts", it), join(folder, "scripts", it));
  cpSync(join(root, "scripts/bundle.ts"), join(folder, "scripts/esbuild.ts"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  mkdirSync(join(folder, "packages/fairlead/src"), { recursive: true });
  writeFileSync(join(folder, "packages/fairlead/src/main.ts"), PROGRAM);
  say("one");
  building("");
});
afterEach(async () => {
  await Promise.all(running.map((it) => end(it)));
  rmSync(made, { recursive: true, force: true });
});

/** Changes a source: what the program says at the end. */
function say(word: string): void {
  writeFileSync(
    join(folder, "packages/fairlead/src/later.ts"),
    `export const word = ${JSON.stringify(word)};\n`,
  );
}

/** Makes building note that it begins, and do something more before. */
function building(more: string): void {
  writeFileSync(
    join(folder, "scripts/bundle.ts"),
    `import { appendFileSync, writeFileSync } from "node:fs";
     import { buildBundle as build } from "./esbuild.ts";
     export async function buildBundle(outdir: string): Promise<void> {
       appendFileSync(${JSON.stringify(join(folder, "builds"))}, "one more\\n");
       ${more}
       await build(outdir);
     }`,
  );
}

const built = (): number => readFileSync(join(folder, "builds"), "utf8").trim().split("\n").length;
const bundles = (): readonly string[] => readdirSync(join(folder, "dist"));

async function run(): Promise<string> {
  const { stdout } = await exec(process.execPath, [join(folder, "scripts/launch.mjs")]);
  return stdout.trim().split("\n").at(-1) ?? "";
}

/** As `run`, in a mount namespace where the checkout is read-only, with a folder for caches. */
async function runReadOnly(caches: string): Promise<readonly string[]> {
  const script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; exec "$2" "$1/scripts/launch.mjs"';
  const args = ["--mount", "sh", "-ec", script, "sh", folder, process.execPath];
  const { stdout } = await exec("unshare", args, { addEnv: { XDG_CACHE_HOME: caches } });
  return stdout.trim().split("\n");
}

/** Starts the program, which waits before it loads the rest. */
async function startWaiting(command: readonly string[]): Promise<{ path: string; goOn(): Promise<string> }> {
  const child = start(process.execPath, [...command, "wait"], { stdio: ["pipe", "pipe", "inherit"] });
  running.push(child);
  const path = String((await once(child.stdout!, "data"))[0]).trim();
  return {
    path,
    async goOn() {
      const said = once(child.stdout!, "data");
      child.stdin?.write("continue\n");
      return String((await said)[0]).trim();
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

describe("programs of a checkout", () => {
  it("are built again when what a source says changes, and only then", async () => {
    expect(await run()).toBe("one");
    const now = new Date();
    utimesSync(join(folder, "packages/fairlead/src/later.ts"), now, now);
    writeFileSync(join(folder, "packages/fairlead/src/later.test.ts"), "");
    expect([await run(), built()]).toEqual(["one", 1]);
    say("two");
    expect([await run(), built()]).toEqual(["two", 2]);
    say("one");
    expect([await run(), built()]).toEqual(["one", 2]);
  });

  it("are built again when their packages or the way of building them change", async () => {
    await run();
    for (const it of ["package-lock.json", "scripts/bundle.ts"]) {
      appendFileSync(join(folder, it), "\n");
      await run();
    }
    expect(built()).toBe(3);
  });

  it("find the modules that they load late, after any number of later builds", async () => {
    const first = await startWaiting([join(folder, "scripts/launch.mjs")]);
    // As a lab starts programs: from the bundle that it was started from itself.
    const second = await startWaiting([first.path]);
    for (const word of ["two", "three", "four", "five", "six", "seven", "eight"]) {
      say(word);
      expect(await run()).toBe(word);
    }
    // The newest five, and the one that is in use.
    expect(bundles()).toHaveLength(6);
    expect(await first.goOn()).toBe("one");
    await once(running[0]!, "exit");
    say("nine");
    await run();
    expect(await second.goOn()).toBe("one");
    await once(running[1]!, "exit");
    say("ten");
    await run();
    expect(bundles()).toHaveLength(5);
  });

  it("are built once when several are started at once", async () => {
    expect(await Promise.all([run(), run(), run(), run()])).toEqual(["one", "one", "one", "one"]);
    expect([built(), bundles().length]).toEqual([1, 1]);
  });

  it.runIf(canBeApart)("do not disturb each other if they cannot see each other's builds", async () => {
    const apart = exec("unshare", ["--net", process.execPath, join(folder, "scripts/launch.mjs")]);
    const [here, there] = await Promise.all([run(), apart]);
    expect([here, there.stdout.trim().split("\n").at(-1)]).toEqual(["one", "one"]);
    expect(bundles()).toHaveLength(1);
  });

  it("run as before when a build was killed, and the next build removes its remains", async () => {
    await run();
    const before = readFileSync(join(folder, "scripts/bundle.ts"), "utf8");
    building(
      `writeFileSync(\`\${outdir}/fairlead.mjs\`, "half a pro"); process.kill(process.pid, "SIGKILL");`,
    );
    await expect(run()).rejects.toThrow(/137|SIGKILL/);
    expect(bundles()).toHaveLength(2);
    writeFileSync(join(folder, "scripts/bundle.ts"), before);
    expect([await run(), built()]).toEqual(["one", 2]);
    say("two");
    expect(await run()).toBe("two");
    expect(bundles().filter((it) => it.includes("."))).toEqual([]);
  });

  it("contain the sources as of the end of the build", async () => {
    const later = JSON.stringify(join(folder, "packages/fairlead/src/later.ts"));
    building(`await build(outdir); writeFileSync(${later}, 'export const word = "later";'); return;`);
    expect([await run(), built()]).toEqual(["later", 2]);
    expect(bundles()).toHaveLength(1);
  });

  it.runIf(canBeApart)("of a checkout that is read-only are built in the user's cache, once", async () => {
    writeFileSync(join(folder, "scripts/bundle.ts"), 'export { buildBundle } from "./esbuild.ts";');
    using caches = mkdtempDisposableSync(join(tmpdir(), "fairlead caches "));
    const [path = "", word] = await runReadOnly(caches.path);
    expect([path.startsWith(`${caches.path}/fairlead/`), word]).toEqual([true, "one"]);
    expect(existsSync(join(folder, "dist"))).toBe(false);
    // From there programs find what they find from a bundle of the checkout: kubectl, packages, the command.
    const place = join(dirname(path), "../..");
    for (const it of ["node_modules", "bin"]) expect(readlinkSync(join(place, it))).toBe(join(folder, it));
    const before = statSync(path).mtimeMs;
    expect(await runReadOnly(caches.path)).toEqual([path, "one"]);
    expect(statSync(path).mtimeMs).toBe(before);
    // Those of the checkout come first, also where it cannot be written to.
    await run();
    expect((await runReadOnly(caches.path))[0]).toBe(
      join(folder, "dist", bundles()[0] ?? "", "fairlead.mjs"),
    );
  });

  it.runIf(canBeApart)("say where they cannot be built and what to do", async () => {
    await expect(runReadOnly("/dev/null")).rejects.toThrow(
      /cannot build the programs into \/dev\/null\/fairlead\/.* cannot be written to, and XDG_CACHE_HOME selects another folder/,
    );
  });

  it("are built once in a folder with a long path, spaces and letters of any alphabet, and are for all users", async () => {
    const deep = join(folder, "a b é Ж 'q' (1) [2] {3,4}", "x".repeat(120));
    for (const it of [
      "package.json",
      "package-lock.json",
      "tsconfig.json",
      "tsconfig.base.json",
      "packages",
      "scripts",
    ])
      cpSync(join(folder, it), join(deep, it), { recursive: true });
    symlinkSync(join(root, "node_modules"), join(deep, "node_modules"));
    folder = deep;
    building("");
    const before = process.umask(0o077);
    try {
      expect(await Promise.all([run(), run(), run()])).toEqual(["one", "one", "one"]);
    } finally {
      process.umask(before);
    }
    expect([built(), bundles().length]).toEqual([1, 1]);
    const bundle = join(folder, "dist", bundles()[0] ?? "");
    const modes = [bundle, join(bundle, "fairlead.mjs")].map((it) => statSync(it).mode & 0o777);
    expect(modes).toEqual([0o755, 0o644]);
  });

  it("report the fault of a source that cannot be built, and leave nothing behind", async () => {
    writeFileSync(join(folder, "packages/fairlead/src/later.ts"), "export const word = ;");
    await expect(run()).rejects.toThrow(/cannot build the programs into .*Unexpected ";"/s);
    expect(existsSync(join(folder, "dist")) ? bundles() : []).toEqual([]);
  });
});
