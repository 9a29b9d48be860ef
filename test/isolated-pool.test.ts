import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { canIsolate, isolated } from "../scripts/isolated-pool.ts";

let parents: string[];
beforeEach(() => {
  parents = [];
});
afterEach(() => {
  for (const it of parents) rmSync(it, { recursive: true, force: true });
});

/** A checkout next to a file of someone else, in a folder that only its owner may enter. */
function checkoutBelow(folder: string): string {
  const parent = mkdtempSync(join(folder, "fairlead isolated ä "));
  parents.push(parent);
  writeFileSync(join(parent, "other"), "");
  const checkout = join(parent, "x".repeat(120));
  mkdirSync(checkout);
  writeFileSync(join(checkout, "program"), "#!/bin/sh\necho started\n");
  chmodSync(join(checkout, "program"), 0o755);
  return checkout;
}

function run(command: readonly string[], needed: readonly string[], cwd: string): string {
  const [program, args] = isolated(command, needed);
  const { stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8" });
  return stderr + stdout;
}

describe.runIf(canIsolate)("a worker of lab tests", () => {
  it.each(["/tmp", "/run", "/root", "/mnt"])("runs from a checkout below %s, and in it", (folder) => {
    const checkout = checkoutBelow(folder);
    expect(run([join(checkout, "program")], [checkout], checkout)).toBe("started\n");
    expect(run(["sh", "-c", "./program; pwd -P"], [checkout], checkout)).toBe(`started\n${checkout}\n`);
  });

  it("has nothing else in /tmp and /run, and leaves nothing there", () => {
    const [one, two] = [checkoutBelow("/tmp"), checkoutBelow("/run")];
    const seen = run(
      ["find", "/tmp", "/run", "-name", "fairlead isolated*"],
      [one, join(one, "program"), two],
      one,
    );
    expect(seen).toBe(`${join(one, "..")}\n${join(two, "..")}\n`);
    expect(run(["find", "/tmp", "/run", "-name", "other"], [one, two], one)).toBe("");
    const left = "/tmp/fairlead-of-a-worker";
    expect(run(["sh", "-c", `: >${left} && ls ${left}`], [one], one)).toBe(`${left}\n`);
    expect(spawnSync("ls", [left]).status).not.toBe(0);
  });

  it("lets other users enter its folders of temporary files", () => {
    const checkout = checkoutBelow("/tmp");
    expect(run(["stat", "-c", "%a", "/tmp", "/run", join(checkout, "..")], [checkout], checkout)).toBe(
      "1777\n755\n755\n",
    );
  });
});
